"""The time of every regular expression grows linearly with the text that it is applied to.

Texts for each pattern are made from its syntax tree: a beginning that matches up to a repetition, then one part many
times, then an end that no pattern accepts.
"""

from __future__ import annotations

import ast
import gc
import importlib
import re
import signal
import time
from collections.abc import Callable, Iterator
from itertools import product
from re import _constants as constants  # type: ignore[attr-defined]  # not in typeshed
from re import _parser as parser  # type: ignore[attr-defined]
from string import printable
from typing import Any, NamedTuple

import pytest

import pulsed
from tests.test_architecture import modules

SHORT, LONG = 2_000, 100_000
NOTICEABLE = 0.0005
"""Seconds for a short text from which on a long one is tried. A linear pattern takes 0.05 ms, a quadratic one 2 ms."""

LIMIT = 1.0
"""Seconds of this process for a long text. A linear pattern takes some 10 ms, a quadratic one 5 s and more."""

ANYTHING = "a0 _-/.:=,|#@%\"'[](){}\\\t\n;<A9"
END = "\0"

OWN_TEXTS = {"pulsed.config.configuration", "pulsed.config.yaml", "pulsed.durations"}
"""Modules that read the configuration only, which the administrator writes."""


class Use(NamedTuple):
    """A pattern, and the name of a method that is called on it."""

    pattern: re.Pattern[str]
    method: str

    def run(self, text: str) -> None:
        """Apply the pattern to a text."""
        method: Callable[[str], object] = getattr(self.pattern, self.method)
        if self.method in ("sub", "subn"):
            self.pattern.sub("", text)
        elif self.method == "finditer":
            list(self.pattern.finditer(text))
        else:
            method(text)


def uses() -> dict[str, Use]:
    """Return all regular expressions by place and method: constants of modules, and those written in calls."""
    found: dict[str, Use] = {}
    for name, tree in modules().items():
        if name == "__main__" or name in OWN_TEXTS:
            continue
        module = importlib.import_module(f"{pulsed.__name__}.{name}")
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            owner, method = node.func.value, node.func.attr
            pattern = getattr(module, owner.id, None) if isinstance(owner, ast.Name) else None
            if isinstance(pattern, re.Pattern):
                found[f"{name}.{ast.unparse(owner)}.{method}"] = Use(_of_text(pattern), method)
            elif pattern is re and method != "compile" and isinstance(node.args[0], ast.Constant):
                flags = eval(ast.unparse(node.args[2])) if len(node.args) > 2 and method in ("search", "match") else 0
                found[f"{name}:{node.lineno}.{method}"] = Use(re.compile(str(node.args[0].value), flags), method)
    return found


def _of_text(pattern: re.Pattern[Any]) -> re.Pattern[str]:
    """Return a pattern of bytes as one of text."""
    source = pattern.pattern
    return re.compile(source.decode("latin-1") if isinstance(source, bytes) else source, pattern.flags)


def beginnings(tree: Any) -> tuple[set[str], set[str]]:
    """Return texts that match up to a repetition of a pattern, and the literal parts of the pattern."""
    before, parts = {""}, set[str]()

    def text_of(tree: Any, begun: str) -> str:
        text, run = "", ""
        for kind, given in tree:
            piece = ""
            if kind is constants.LITERAL:
                piece = chr(given)
                run += piece
            else:
                parts.add(run)
                run = ""
            if kind in (constants.NOT_LITERAL, constants.ANY, constants.IN):
                piece = next(each for each in ANYTHING + printable + "é" if matches(kind, given, each))
                parts.add(piece)
            elif kind is constants.SUBPATTERN:
                piece = text_of(given[3], begun + text)
            elif kind is constants.BRANCH:
                pieces = [text_of(branch, begun + text) for branch in given[1]]
                piece = pieces[0]
            elif kind in (constants.MAX_REPEAT, constants.MIN_REPEAT):
                least, most, body = given
                before.add(begun + text)
                one = text_of(body, begun + text)
                parts.add(one)
                piece = one * max(least, 1) if most else ""
                before.add(begun + text + piece)
            text += piece
        parts.add(run)
        before.add(begun + text)
        return text

    parts.add(text_of(tree, ""))
    return before, parts - {""}


def matches(kind: object, given: Any, character: str) -> bool:
    """Return whether a set of characters has one."""
    if kind is constants.ANY:
        return character != "\n"
    if kind is constants.NOT_LITERAL:
        return ord(character) != int(given)
    is_inverted = given[0][0] is constants.NEGATE
    return is_inverted is not any(_is_in(item, argument, character) for item, argument in given[is_inverted:])


_CATEGORIES = {
    constants.CATEGORY_DIGIT: r"\d",
    constants.CATEGORY_NOT_DIGIT: r"\D",
    constants.CATEGORY_SPACE: r"\s",
    constants.CATEGORY_NOT_SPACE: r"\S",
    constants.CATEGORY_WORD: r"\w",
    constants.CATEGORY_NOT_WORD: r"\W",
}


def _is_in(kind: object, given: Any, character: str) -> bool:
    if kind is constants.LITERAL:
        return ord(character) == int(given)
    if kind is constants.RANGE:
        return ord(character) in range(given[0], given[1] + 1)
    return re.fullmatch(_CATEGORIES[given], character) is not None


def attacks(pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield beginnings with the part that follows them many times."""
    before, parts = beginnings(parser.parse(pattern.pattern, pattern.flags))
    yield from product(sorted(before), sorted({*parts, *before, *ANYTHING} - {""}))


class TooSlow(Exception):
    """A pattern takes longer than the limit."""


def is_slow(use: Use, text: str) -> bool:
    """Return whether a pattern takes longer than the limit.

    No garbage is collected meanwhile: an exception that is raised in a callback of the collector is lost.
    """

    def stop(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    gc.disable()
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
    try:
        use.run(text)
    except TooSlow:
        return True
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        gc.enable()
        signal.signal(signal.SIGVTALRM, before)
    return False


def is_noticeable(use: Use, text: str) -> bool:
    """Return whether a pattern takes long enough to be tried on a long text, as any does on a busy machine."""
    started = time.perf_counter()
    return is_slow(use, text) or time.perf_counter() - started > NOTICEABLE


def slow_text(use: Use) -> str:
    """Return a text for which a pattern takes longer than the limit; empty if there is none."""
    for begin, part in attacks(use.pattern):
        short, long = (begin + part * (length // len(part)) + END for length in (SHORT, LONG))
        if is_noticeable(use, short) and is_slow(use, long):
            return f"{begin!r} + {part!r} * {LONG // len(part)} + {END!r}"
    return ""


@pytest.mark.slow
def test_all_regular_expressions_are_linear() -> None:
    found = uses()
    assert len(found) > 60, "they are found"
    assert {name: text for name, use in found.items() if (text := slow_text(use))} == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "pattern",
    [
        r"([^=:\s]*(?:token|secret)[^=:\s]*\s*[=:]\s*).+",
        r"\|\s*(.*?)\s*\|\s*(.*?)\s*\|",
        r"(a+)+b",
        r"//[^?#]*@",
        r"x*y",
    ],
)
def test_slow_ones_are_found(pattern: str) -> None:
    assert slow_text(Use(re.compile(pattern), "search"))
