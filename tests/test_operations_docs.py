"""What OPERATIONS.md and the guides tell operators to type, ask and expect is what works."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import yaml

from pulsed.cli import argument_parser
from pulsed.commands.daemon import RESTART_KEYS
from pulsed.configuration import Config, check
from pulsed.errors import SourceError, UsageError
from pulsed.model.health import SEVERITY
from pulsed.present.api.history import History
from pulsed.present.api.sample_fields import DEFAULT_FIELDS, Columns
from support.bench.ticks import computed_ticks
from support.daemon import serving
from support.prometheus import CONFIG, prometheus
from support.tools import tool
from support.waiting import SECONDS
from tools.generate_docs import ROOT

GUIDES = sorted((ROOT / "docs").glob("*.md"))
TEXT = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "OPERATIONS.md", *GUIDES))
README = (ROOT / "README.md").read_text(encoding="utf-8")
CHART = (ROOT / "helm/pulsed/README.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")

PROMETHEUS, PULSED, HELM = "# prometheus.yml", "# /etc/pulsed/config.yaml", "# values.yaml"
"""First lines of YAML blocks: what each is."""


def blocks(language: str, text: str = TEXT) -> list[str]:
    """Give the code blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def yaml_blocks(head: str) -> list[str]:
    return [block for block in blocks("yaml") if block.splitlines()[0] == head]


def queries() -> list[str]:
    return [query for block in blocks("promql") for query in block.strip().split("\n\n")]


def rows(heading: str, text: str = TEXT) -> list[list[str]]:
    """Give the cells of the tables below a heading."""
    (chapter,) = re.findall(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    lines = [line for line in chapter.splitlines() if line.startswith("|") and not line.startswith("|-")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def commands(text: str) -> list[list[str]]:
    """Give every command of the shell blocks, as words."""
    found = []
    for block in blocks("sh", text):
        for line in block.replace("\\\n", " ").splitlines():
            with contextlib.suppress(ValueError):  # the middle of a quoted script
                found.append(shlex.split(line, comments=True))
    return [words for words in found if words]


def parses(words: Sequence[str]) -> bool:
    """Whether pulsed understands a command line."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            argument_parser().parse_args(words)
    except UsageError:
        return False
    except SystemExit as stop:  # --version, --help
        return stop.code == 0
    return True


@pytest.mark.parametrize("text", [TEXT, README], ids=["OPERATIONS.md", "README.md"])
def test_every_pulsed_command_parses(text: str) -> None:
    own = [words[1:] for words in commands(text) if words[0] == "pulsed"]
    assert len(own) >= 5
    for words in own:
        assert parses(words), words


def test_commands_in_the_text_exist() -> None:
    for command in sorted(set(re.findall(r"`pulsed ([a-z-]+)", TEXT))):
        assert parses([command, "--help"]), command


@pytest.mark.parametrize("text", [TEXT, README, ARCHITECTURE], ids=["OPERATIONS.md", "README.md", "ARCHITECTURE.md"])
def test_every_file_of_the_repository_that_is_named_exists(text: str) -> None:
    named = re.findall(r"(?<![\w/.-])(?:deploy|helm|systemd|tests|pulsed)/(?!\d)[\w./-]+", text)
    assert named
    for path in named:
        assert (ROOT / path.rstrip(".")).exists(), path


def test_every_name_in_the_recipes_is_a_name_of_the_code() -> None:
    named = re.findall(r"`(?:\w+\.)*([A-Z]\w+|\w+_\w+)(?:\(\))?`", ARCHITECTURE)
    assert len(named) >= 20
    suffixes = (".py", ".js", ".yaml", "Makefile")
    files = [path for folder in ("pulsed", "tests", "tools") for path in (ROOT / folder).rglob("*.*")]
    code = "".join(path.read_text(encoding="utf-8") for path in files if path.name.endswith(suffixes))
    assert [name for name in named if not re.search(rf"\b{name}\b", code)] == []


def test_every_yaml_block_says_what_it_is() -> None:
    assert {block.splitlines()[0] for block in blocks("yaml")} == {PROMETHEUS, PULSED, HELM}
    for block in blocks("yaml"):
        assert yaml.safe_load(block)


@pytest.mark.parametrize("block", yaml_blocks(PULSED))
def test_configurations_are_valid(block: str, tmp_path: Path) -> None:
    file = tmp_path / "pulsed.yaml"
    file.write_text(block)
    check(file)


def keys_named() -> list[str]:
    """Give the keys of pulsed's configuration in the text; the chart's values of the same beginning are left out."""
    found = re.findall(r"`((?:source|compute|publish|history|health|web)\.[\w.]+)", TEXT)
    return sorted({key for key in found if not re.match(r"source\.\w+\.(via|service|pod)", key)})


@pytest.mark.parametrize("key", keys_named())
def test_every_key_that_is_named_is_a_key(key: str) -> None:
    manual = (ROOT / "CONFIGURATION.md").read_text(encoding="utf-8")
    section, _, name = key.rpartition(".")
    chapter = manual.partition(f"\n### `{section}`\n")[2].partition("\n### ")[0]
    assert re.search(rf"^\* `{name}: [<(]", chapter, re.MULTILINE) or f"\n### `{key}`\n" in manual, key


def test_values_of_the_chart_exist() -> None:
    known = yaml.safe_load((ROOT / "helm/pulsed/values.yaml").read_text(encoding="utf-8"))

    def compare(given: object, known: object, path: str) -> None:
        if isinstance(given, dict) and known != {}:  # labels have keys of the user's own
            assert isinstance(known, dict), path
            for key, value in given.items():
                assert key in known, f"{path}.{key}"
                compare(value, known[key], f"{path}.{key}")

    for block in yaml_blocks(HELM):
        compare(yaml.safe_load(block), known, "values")


@pytest.mark.parametrize("block", yaml_blocks(PROMETHEUS))
def test_scrape_configurations_are_prometheus_own(block: str, tmp_path: Path) -> None:
    file = tmp_path / "prometheus.yml"
    file.write_text(block)
    _promtool("check", "config", "--syntax-only", str(file))


def _promtool(*arguments: str) -> None:
    done = subprocess.run(
        [tool("promtool", "prometheus"), *arguments], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_list_of_slurm_nodes_is_what_prometheus_reads(tmp_path: Path) -> None:
    (script,) = (block for block in blocks("sh") if "sinfo" in block)
    sinfo = tmp_path / "sinfo"
    sinfo.write_text("#!/bin/sh\nprintf 'node2\\nnode1\\nnode2\\n'\n")
    sinfo.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["sh", "-e", "-c", script], cwd=tmp_path, env={"PATH": path}, check=True, timeout=SECONDS)
    found = json.loads((tmp_path / "pulsed-nodes.json").read_text())
    assert found == [{"targets": ["node1:9401", "node2:9401"]}]


@pytest.mark.timeout(180)
def test_prometheus_answers_every_query(tmp_path: Path) -> None:
    assert len(queries()) >= 15
    with (
        serving(tmp_path, "--source", "demo") as daemon,
        prometheus(tmp_path, CONFIG.format(interval="1s", address=daemon.address)) as server,
    ):
        server.wait_for("count_over_time(pulsed_gpu_observed_seconds_total[1m]) >= 10", seconds=60)
        for query in queries():
            assert server.ask(query), f"Prometheus has no answer to\n{query}"


def test_every_metric_that_is_named_exists_on_the_page(tmp_path: Path) -> None:
    with serving(tmp_path, "--source", "demo") as daemon:
        page = daemon.get("/metrics").text
    told = (ROOT / "METRICS.md").read_text(encoding="utf-8") + page
    for name in sorted(set(re.findall(r"\bpulsed_(?:gpu|source|config)_[a-z0-9_]+[a-z0-9]\b", TEXT))):
        assert name in told, name


def series_of_a_gpu() -> tuple[float, float]:
    """Return the fewest and the most series of a GPU on a lean page, as the text has them."""
    ((fewest, most),) = re.findall(r"has ([\d,]+) to ([\d,]+) series", TEXT)
    return _number(fewest), _number(most)


def test_a_gpu_has_as_many_series_as_the_text_has(tmp_path: Path) -> None:
    fewest, most = series_of_a_gpu()
    with serving(tmp_path, "--source", "demo") as daemon:
        page = daemon.get("/metrics").text
    series = [line for line in page.splitlines() if not line.startswith("#") and 'gpu="0"' in line]
    assert fewest <= len(series) <= most


def test_the_estimate_of_storage_follows_from_the_series() -> None:
    fewest, most = series_of_a_gpu()
    for gpus, series, per_second, day in rows("Series")[1:]:
        wanted = _number(series)
        assert fewest <= wanted / _number(gpus) <= most
        assert _number(per_second) == pytest.approx(wanted / 15, abs=0.5)
        low, high = (_number(number) for number in re.findall(r"[\d,]+", day))
        assert low == pytest.approx(wanted / 15 * 86_400 / 1e6, rel=0.05)
        assert high == pytest.approx(2 * low, rel=0.05)


def test_the_memory_of_the_history_is_that_of_the_table() -> None:
    table = dict(rows("History")[1:])
    whole, *_ = re.findall(r"\d+", table["a sample with the default fields"])
    assert int(whole) == pytest.approx(Columns(DEFAULT_FIELDS).size, rel=0.05)
    for what, interval in (("8 GPUs at 1 s, 10 minutes", 1), ("8 GPUs at 100 ms, 10 minutes", 0.1)):
        text = table[what].split()[0]
        assert _history_megabytes(interval) == pytest.approx(float(text), rel=0.15), what
    assert check_default("history.max_bytes") == 8 * 2**20


def _history_megabytes(interval: float) -> float:
    """Return the size of ten minutes of 8 GPUs."""
    history, ticks = History(), computed_ticks(8, 100)
    for number in range(int(600 / interval)):
        tick = ticks[number % len(ticks)]
        history.add(replace(tick, raw=replace(tick.raw, clock=number * interval)))
    return history.size / 1e6


def check_default(key: str) -> object:
    """The default of a configuration key."""
    value: object = Config()
    for name in key.split("."):
        value = getattr(value, name)
    return value


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _reasons(kind: type[SourceError]) -> Iterator[str]:
    yield kind.reason
    for child in kind.__subclasses__():
        yield from _reasons(child)


def test_every_reason_of_a_source_is_in_the_table() -> None:
    told = [cells[0].strip("`") for cells in rows("Source errors")[1:]]
    assert sorted(told) == sorted(set(_reasons(SourceError)) | {"internal"})


@cache
def _texts() -> tuple[str, ...]:
    """Every text in pulsed's source, f-strings without what they fill in."""
    return tuple(
        node.value
        for path in (ROOT / "pulsed").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _messages() -> list[str]:
    """The messages of the log and of doctor among the symptoms, also those of autoscaling."""
    symptoms = [row for heading in re.findall("^### (Symptoms.*)$", TEXT, re.MULTILINE) for row in rows(heading)[1:]]
    seen = [cells[0] for cells in (*symptoms, *rows("Autoscaling", CHART))]
    return [text for cell in seen if re.match(r"doctor|`doctor`|log|`unknown", cell) for text in _quoted(cell)]


def _quoted(cell: str) -> list[str]:
    return [text for text in re.findall(r"`([^`]+)`", cell) if text not in ("doctor", "check-config")]


@pytest.mark.parametrize("message", _messages())
def test_messages_are_quoted_as_they_are_printed(message: str) -> None:
    for part in message.split("…"):
        words = part.strip(" .:;?")
        if message == "left out, profiling held":
            words = "left out, "  # doctor fills in the reason of the error
        assert any(words in text for text in _texts()), words


def test_what_needs_a_restart_is_what_the_daemon_takes_no_notice_of() -> None:
    (row,) = (cells for cells in rows("Upgrade and rollback") if cells[0] == "settings")
    assert set(re.findall(r"`([a-z_]+)`", row[1])) == set(RESTART_KEYS)


def test_severities_are_those_of_the_code() -> None:
    (comment,) = re.findall(r"^# Worst first: (.*)$", TEXT, re.MULTILINE)
    said = {name: int(number) for number, name in re.findall(r"(-?\d) (\w+)", comment)}
    assert said == dict(SEVERITY)
