"""No file is opened, read or asked for its state in the event loop: its file system may hang.

A call in the body of an `async def` is one in the event loop, as is one in a function that such a body calls. Functions
are told apart by their names. What runs in a thread is passed on, not called.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "pulsed"

FUNCTIONS = {
    "open",
    "io.open",
    "io.FileIO",
    *(f"os.{name}" for name in ("open", "stat", "lstat", "listdir", "scandir", "access", "readlink", "statvfs")),
    *(f"os.path.{name}" for name in ("exists", "lexists", "isfile", "isdir", "islink", "getsize", "getmtime")),
}
METHODS = {
    *("read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "rglob", "glob"),
    *("stat", "lstat", "exists", "is_file", "is_dir", "is_fifo", "is_socket", "samefile"),
}

COMMANDS = ("apps", "cli")
"""Programs with one user, who can end them."""

ALLOWED = {
    "present/exposition/page.py:serve: self._lock.locked": "asyncio's",
    "daemon/daemon.py:run": "`restore` and `save` of files in `state_dir`: before the first and after the last answer",
    "reader/replay/playback.py": "recordings are played for tests and demonstrations",
}
"""Where files are read in the event loop, and why."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def calls(body: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that run with a body: not those of functions that it defines."""
    for child in ast.iter_child_nodes(body):
        if not isinstance(child, Function | ast.Lambda | ast.ClassDef):
            if isinstance(child, ast.Call):
                yield child
            yield from calls(child)


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def dotted(node: ast.AST) -> str:
    """Return `a.b.c` of names and attributes; `().c` for an attribute of another expression."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "()"


def reads(name: str) -> bool:
    return name in FUNCTIONS or (name.rpartition(".")[2] in METHODS and "." in name)


def found(sources: dict[str, str]) -> list[str]:
    """Return the calls in the event loop that read files, each as `file:function: call`."""
    trees = {name: ast.parse(text) for name, text in sources.items()}
    called = [
        (file, function, [dotted(call.func) for call in calls(function)])
        for file, tree in trees.items()
        for function in functions(tree)
    ]
    count = Counter(function.name for _, function, _ in called)
    unique = [
        (function.name, names)
        for _, function, names in called
        if count[function.name] == 1 and isinstance(function, ast.FunctionDef)
    ]
    readers = set[str]()

    def is_reader(call: str) -> bool:
        return reads(call) or call.rpartition(".")[2] in readers

    while new := {name for name, names in unique if name not in readers and any(map(is_reader, names))}:
        readers |= new
    return [
        f"{file}:{function.name}: {call}"
        for file, function, names in called
        if isinstance(function, ast.AsyncFunctionDef)
        for call in names
        if is_reader(call)
    ]


def test_no_file_is_read_in_the_event_loop() -> None:
    paths = [path.relative_to(PACKAGE) for path in sorted(PACKAGE.rglob("*.py"))]
    sources = {str(path): (PACKAGE / path).read_text() for path in paths if path.parts[0] not in COMMANDS}
    assert [each for each in found(sources) if not each.startswith(tuple(ALLOWED))] == []


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("async def a(): open('x')", True),
        ("async def a(): path.read_text()", True),
        ("async def a():\n with x: os.stat(path)", True),
        ("def look(): return os.path.exists('x')\nasync def a(): await wait(look())", True),
        ("def look(): return one()\ndef one(): return x.stat()\nasync def a(): look()", True),
        ("class A:\n def look(self): open('x')\nasync def a(): b.look()", True),
        ("async def a(): await thread(lambda: open('x'))", False),
        ("def look(): return os.stat('x')\nasync def a(): await thread(look)", False),
        ("def look(): return os.stat('x')", False),
    ],
)
def test_what_is_found(text: str, is_found: bool) -> None:
    assert bool(found({"file.py": text})) == is_found
