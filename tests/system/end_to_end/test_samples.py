"""Other people's captures and pages, through the commands and through a daemon that scrapes them over HTTP."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pulsed import cli
from pulsed.model.vocabulary import QUANTITIES
from pulsed.present.api.documents import GPU, GPUS
from pulsed.present.api.routing import Failure
from pulsed.present.api.schema import DocumentModel
from tests.support.daemon import Answer, Daemon, environment, free_port, serving
from tests.support.documents import has_shape
from tests.support.samples import SAMPLES, needs_samples
from tests.support.tools import tool
from tests.support.waiting import SECONDS, until
from tests.system.end_to_end.series import Row, rows

pytestmark = needs_samples

CAPTURES = sorted(path.name for path in SAMPLES.glob("dmon/*.txt"))
PAGES = sorted(path.name for path in SAMPLES.glob("exporter/*.prom"))

T4 = "exporter-4x-t4-whole-page.prom"

BLANKS = {float(base + kind) for base in (2147483632, 140737488355328, 9223372036854775792) for kind in range(4)}

Identity = tuple[str, str, str]
"""Node, UUID and MIG id."""


@pytest.fixture
def quiet() -> Iterator[None]:
    """A command run in this process takes over its log."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def snapshot(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = cli.main(["snapshot", "--source", "replay", "--set", f"source.replay.path={path}"])
    out, err = capsys.readouterr()
    return code, out, err


def identities(name: str) -> set[Identity]:
    """What a page is about, boards of which only MIG instances are shown included."""
    found = set()
    for row in rows((SAMPLES / "exporter" / name).read_text()):
        node, uuid, instance = row.label("Hostname", "hostname"), row.label("UUID"), row.label("GPU_I_ID")
        found |= {(node, uuid, ""), (node, uuid, instance)}
    return found


# --- commands


@pytest.mark.parametrize("name", CAPTURES)
@pytest.mark.usefixtures("quiet")
def test_snapshot_of_every_capture(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = SAMPLES / "dmon" / name
    code, out, err = snapshot(path, capsys)
    if "-error-" in name:
        assert (code, out) == (1, "")
        assert err.startswith("pulsed: ")
        assert err.count("\n") == 1
        assert str(path) in err
        return
    assert (code, err) == (0, "")
    head, *lines = out.splitlines()
    columns = head.split()
    assert columns[0] == "GPU"
    assert all(len(line) <= 120 for line in out.splitlines())
    table = [line for line in lines if re.match(r" *(\d+|-) ", line)]
    entities = re.findall(r"^ *(GPU|GPU-I) (\d+)", path.read_text(), re.MULTILINE)
    if "MIG" in columns:
        assert len(table) == len(set(entities))
    else:
        assert [line.split()[0] for line in table] == sorted({number for _, number in entities}, key=int)


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.usefixtures("quiet")
def test_snapshot_of_every_page(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = snapshot(SAMPLES / "exporter" / name, capsys)
    assert (code, err) == (0, "")
    assert out.startswith("GPU  ")
    assert len([line for line in out.splitlines() if re.match(r" *\d+ ", line)]) == len(identities(name))


# --- all pages from a plain file server, through one daemon


class Seen(NamedTuple):
    """What the daemon showed once it had read every page."""

    metrics: Answer
    openmetrics: Answer
    gpus: Answer
    t4: Answer
    ambiguous: Answer
    unknown: Answer
    forbidden: Answer


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("daemon")
    port = free_port()
    targets = [f"http://127.0.0.1:{port}/{name}" for name in PAGES]
    files = subprocess.Popen(
        [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", SAMPLES / "exporter"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(),
    )
    try:
        with serving(
            folder,
            "--source=exporter",
            "--set=source.interval=1s",
            "--set=source.stale_after=60s",
            "--set=publish.passthrough=true",
            "--set=publish.series=full",
            f"--set=source.exporter.targets=[{', '.join(targets)}]",
            ready=False,
        ) as daemon:
            wait_for_all(daemon, len(targets))
            ((_, uuid, _),) = identities(T4)
            gpus, metrics = of_one_tick(daemon)
            yield Seen(
                metrics,
                daemon.get("/metrics", {"Accept": "application/openmetrics-text;version=1.0.0"}),
                gpus,
                daemon.get(f"/gpus/{uuid}"),
                daemon.get("/gpus/0"),
                daemon.get("/gpus/99"),
                daemon.get("/gpus", method="POST"),
            )
    finally:
        files.terminate()
        files.wait(SECONDS)


def wait_for_all(daemon: Daemon, targets: int) -> None:
    def is_read() -> bool:
        page = daemon.get("/metrics").text
        return len(re.findall(r"^pulsed_source_up\{.*\} 1$", page, re.MULTILINE)) == targets

    until(is_read)


def of_one_tick(daemon: Daemon) -> tuple[Answer, Answer]:
    """``/gpus`` and ``/metrics`` that say the same moment: no GPU had another reading between the two.

    Some of the pages show one board under several host names, so that what is known of it grows with each tick.
    """

    def readings(gpus: Answer) -> list[Any]:
        return [(one["uuid"], one["mig"], one["metrics"]) for one in gpus.json()["gpus"]]

    pair: list[Answer] = []

    def is_still() -> bool:
        before, metrics, after = daemon.get("/gpus"), daemon.get("/metrics"), daemon.get("/gpus")
        pair[:] = after, metrics
        return readings(before) == readings(after)

    until(is_still)
    return pair[0], pair[1]


def test_every_gpu_of_every_page_is_served(seen: Seen) -> None:
    named = set().union(*(identities(name) for name in PAGES))
    wanted = {gpu[1:] for gpu in named}  # a GPU is its UUID, whatever host its exporter names
    assert len(wanted) > 40
    documents = seen.gpus.json()["gpus"]
    listed = [(one["node"], one["uuid"], one["mig"]["id"] if one["mig"] else "") for one in documents]
    assert len(set(listed)) == len(listed)
    assert (set(listed) - named, sorted(gpu[1:] for gpu in listed)) == (set(), sorted(wanted))
    shown = [identity(row) for row in rows(seen.metrics.text) if row.name == "pulsed_gpu_info"]
    assert len(set(shown)) == len(shown)
    assert set(shown) == set(listed)


def identity(row: Row) -> Identity:
    return row.label("node"), row.label("uuid"), row.label("mig_id")


def test_a_missing_reading_is_null_and_absent(seen: Seen) -> None:
    """The two faces say the same, quantity by quantity and GPU by GPU."""
    for one in seen.gpus.json()["gpus"]:
        assert set(one["metrics"]) == set(QUANTITIES)
    listed = {
        (f"pulsed_gpu_{name}", one["node"], one["uuid"], one["mig"]["id"] if one["mig"] else ""): value
        for one in seen.gpus.json()["gpus"]
        for name, value in one["metrics"].items()
        if value is not None
    }
    names = {f"pulsed_gpu_{name}" for name in QUANTITIES}
    shown = {(row.name, *identity(row)): float(row.value) for row in rows(seen.metrics.text) if row.name in names}
    assert shown == listed


def test_promtool_finds_nothing_to_say(seen: Seen) -> None:
    promtool = tool("promtool", "prometheus")
    check = subprocess.run(
        [promtool, "check", "metrics"], input=seen.metrics.text, capture_output=True, text=True, check=False
    )
    # The names that DCGM gave are not to Prometheus' taste. An error in the page would be exit code 1.
    assert check.returncode in (0, 3), check.stderr
    assert [line for line in check.stderr.splitlines() if not line.upper().startswith("DCGM_")] == []


def test_no_blank_is_a_number_and_no_share_is_above_one(seen: Seen) -> None:
    for page in (seen.metrics.text, seen.openmetrics.text):
        for row in rows(page):
            value = float(row.value)
            assert value not in BLANKS, row
            assert value < min(BLANKS - {float(2147483632 + kind) for kind in range(4)}), row
            if row.name.startswith("pulsed_") and row.name.endswith("_ratio"):
                assert 0 <= value <= 1, row


def test_a_t4_that_is_busy_doing_little(seen: Seen) -> None:
    document = seen.t4.json()
    assert document["metrics"]["gpu_utilization_ratio"] == 0.91
    assert document["metrics"]["graphics_engine_active_ratio"] == 0.156205
    assert document["metrics"]["sm_active_ratio"] is None
    utilization = document["real_utilization"]
    assert utilization["missing_inputs"] == ["sm_active_ratio"]
    assert utilization["lower"] <= utilization["ratio"] <= utilization["upper"] < 0.1


def test_the_exporters_own_series_are_there_unchanged(seen: Seen) -> None:
    shown: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for row in rows(seen.metrics.text):
        if row.name.upper().startswith("DCGM_"):
            assert (row.name, row.labels) not in shown
            shown[row.name, row.labels] = float(row.value)
    wanted: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for name in PAGES:
        for row in rows((SAMPLES / "exporter" / name).read_text()):
            wanted[row.name, row.labels] = float(row.value)
    assert shown == wanted


def test_documents_have_the_documented_shape(seen: Seen) -> None:
    shapes: list[tuple[Answer, int, type[DocumentModel]]] = [
        (seen.gpus, 200, GPUS),
        (seen.t4, 200, GPU),
        (seen.ambiguous, 409, Failure),
        (seen.unknown, 404, Failure),
        (seen.forbidden, 405, Failure),
    ]
    for answer, status, shape in shapes:
        assert answer.status == status
        document: Any = answer.json()
        assert has_shape(shape, document)
