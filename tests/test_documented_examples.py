"""Commands, configurations and queries in the documents are ones that pulsed and Prometheus accept."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from pulsed.cli import COMMANDS, argument_parser
from pulsed.config.configuration import check
from tests.present.promql.promtool import promtool
from tests.test_docs import PAGES
from tools.generate_docs import ROOT

PIPES_AND_SEPARATORS = re.compile(r"[|&;()<>]+")
UNKNOWN_OPTION = "--no-such-option"

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def blocks(page: Path, language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```", text, re.DOTALL | re.MULTILINE)
    return [dedent(block) for _, block in found]


def commands_in(line: str) -> Iterator[list[str]]:
    """Yield the arguments of each `pulsed` in a line of the shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] | None = None
    for word in lexer:
        if PIPES_AND_SEPARATORS.fullmatch(word):
            if words:
                yield words
            words = None
        elif word in ("pulsed", "/opt/pulsed/bin/pulsed"):
            words = []
        elif words is not None:
            words.append(word)
    if words:
        yield words


def arguments_of(page: Path) -> list[list[str]]:
    """Return the arguments of each `pulsed` in the scripts of a page."""
    lines: list[str] = []
    for block in [*blocks(page, "sh"), *blocks(page, "console")]:
        joined = block.replace("\\\n", " ")
        lines += [line.removeprefix("$ ") for line in joined.splitlines() if re.search(r"(^|[ (])pulsed ", line)]
    return [arguments for line in lines for arguments in commands_in(line) if arguments[0] in COMMANDS]


@each_page
def test_a_command_has_options_that_exist(page: Path) -> None:
    for arguments in arguments_of(page):
        parsed, rest = argument_parser([arguments[0]]).parse_known_args(arguments)
        assert (parsed.command, rest) == (arguments[0], [])


def test_there_are_commands_and_a_wrong_option_is_noticed() -> None:
    assert sum(len(arguments_of(page)) for page in PAGES) > 30
    assert argument_parser(["rules"]).parse_known_args(["rules", UNKNOWN_OPTION])[1] == [UNKNOWN_OPTION]


@each_page
def test_a_command_in_the_text_exists_with_its_options(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for span in re.findall(r"`pulsed ([a-z][^`]*)`", text):
        name, *words = span.split()
        assert name in COMMANDS, span
        with pytest.raises(SystemExit):
            argument_parser([name]).parse_args([name, "--help"])
        offered = capsys.readouterr().out
        for option in re.findall(r"--[a-z][\w.-]*", " ".join(words)):
            assert option in offered, span


@each_page
def test_a_configuration_is_valid(page: Path, tmp_path: Path) -> None:
    for number, block in enumerate(blocks(page, "ya?ml")):
        if block.startswith("# /etc/pulsed/config.yaml"):
            file = tmp_path / f"{number}.yaml"
            file.write_text(block)
            check(file)


@each_page
def test_a_configuration_of_prometheus_is_valid(page: Path, tmp_path: Path) -> None:
    for block in blocks(page, "ya?ml"):
        if block.startswith("# prometheus.yml"):
            (tmp_path / "prometheus.yml").write_text(block)
            done = promtool("check", "config", "--syntax-only", str(tmp_path / "prometheus.yml"))
            assert done.returncode == 0, done.stdout + done.stderr


@each_page
def test_a_query_is_valid(page: Path, tmp_path: Path) -> None:
    queries = [query for block in blocks(page, "promql") for query in statements(block)]
    if not queries:
        return
    rules = [{"record": f"documented:query{number}", "expr": query} for number, query in enumerate(queries)]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "documented", "rules": rules}]}))
    done = promtool("check", "rules", str(tmp_path / "rules.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr


def statements(block: str) -> list[str]:
    """Return the queries of a block: the lines that follow a query are indented, or begin with a bracket."""
    lines = [line for line in block.splitlines() if line and not line.startswith("#")]
    starts = [index for index, line in enumerate(lines) if line[0] not in " )"]
    return ["\n".join(lines[a:b]) for a, b in zip(starts, [*starts[1:], len(lines)], strict=True)]
