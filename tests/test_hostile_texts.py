"""Whatever reads text of others takes time that grows with its length, and refuses what it cannot read in its own way.

Each reader gets long texts of parts that it takes a part of a row, a name or a number for.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest

from pulsed.cli.arguments import expanded_hosts
from pulsed.collector.collector import Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.errors import PulsedError
from pulsed.http.credentials import masked
from pulsed.kubernetes.objects import parse_selector
from pulsed.model.clocks import Unix
from pulsed.model.gpu import device_key
from pulsed.owners.attribution.gpu_processes import arguments_of, owner_of_cgroup, program_of
from pulsed.owners.attribution.mapping_directory import parse_job_file
from pulsed.owners.attribution.slurm_queue import parse_job
from pulsed.present.csv.kempnerpulse import model
from pulsed.present.terminal.view_state import gpu_filter
from pulsed.printable import clean, escaped, text_cell
from pulsed.reader.dcgmi.discovery import parse_versions, topology_of
from pulsed.reader.dcgmi.failures import failure_of
from pulsed.reader.dmon.parser import DmonParser
from pulsed.reader.exposition.parser import PageParser
from pulsed.reader.kernel_log.line_formats import Now
from pulsed.reader.kernel_log.log_text import LogText, parse_message
from pulsed.reader.replay.recording import recording_type
from pulsed.translate.fields import exporter_version
from tests.translate.build import page_tick

LENGTH = 100_000
LIMIT = 10.0
"""Seconds. A reader whose time grows with the length takes tenths of one, another one minutes."""

NOW = Now(Unix(1_700_000_000.0), 1000.0)


class TooSlow(BaseException):
    """A reader takes longer than the limit."""


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Raise `TooSlow` after some seconds of this process."""

    def stop(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def dmon_rows(text: str) -> None:
    parser = DmonParser()
    for line in ("#Entity   SMACT TMPTR\n", *text.split("\n")):
        parser.feed(line[: 2**14])
    parser.finish()


def computed_page(text: str) -> None:
    """Take a page with a text in each label and HELP text through the pipeline."""
    label = text[:1024].replace("\\", "").replace('"', "").replace("\n", "")
    names = (
        "UUID",
        "gpu",
        "modelName",
        "GPU_I_PROFILE",
        "GPU_I_ID",
        "pci_bus_id",
        "pod",
        "namespace",
        "xid",
        "Hostname",
    )
    labels = ",".join(f'{name}="{label}"' for name in names)
    lines = [
        f"# HELP DCGM_FI_DEV_GPU_UTIL {text[:8192]}".replace("\n", ""),
        *(f"{name}{{{labels}}} 5" for name in ("DCGM_FI_DEV_GPU_UTIL", "DCGM_EXP_XID_ERRORS_COUNT")),
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 {label[:500]}"}} 5',
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 {label[:500]}",GPU_I_ID="1",'
        f'GPU_I_PROFILE="1g.{label[:500]}gb"}} 5',
    ]
    pipeline = Pipeline(GpuTable(), "n")
    for _ in range(3):
        pipeline.process(page_tick("\n".join(lines) + "\n"))


def recording(text: str) -> None:
    path = Path("capture")
    path.write_text(text, encoding="utf-8", errors="replace")
    recording_type(path)


READERS: dict[str, Callable[[str], object]] = {
    "command line": lambda text: program_of(text.split("\n")),
    "content of cmdline": lambda text: program_of(arguments_of(text.encode())),
    "control groups": lambda text: owner_of_cgroup(f"0::/{text}\n1:x:{text}"),
    "device name": device_key,
    "job file": parse_job_file,
    "squeue": lambda text: parse_job(text, text),
    "dcgmi discovery": lambda text: topology_of(text, text),
    "dcgmi version": parse_versions,
    "dcgmi failure": lambda text: failure_of("dcgmi", 1, [f"Error: {text}", text]),
    "dmon": dmon_rows,
    "page": lambda text: PageParser().parse(text.encode()),
    "labels and HELP texts": computed_page,
    "recording": recording,
    "redirect": lambda text: masked(f"http://{text}"),
    "kernel log": lambda text: LogText().feed(text.encode(), NOW),
    "kernel message": lambda text: parse_message(f"NVRM: {text}", Unix(1.0)),
    "label selector": parse_selector,
    "filter": gpu_filter,
    "list of hosts": expanded_hosts,
    "version of an exporter": exporter_version,
    "terminal": clean,
    "log": escaped,
    "CSV": text_cell,
    "CSV of KempnerPulse": model,
}
PARTS = (
    *(
        "a",
        "9",
        " ",
        "\t",
        "\n",
        "=",
        ":",
        "/",
        ",",
        "|",
        "-",
        ".",
        '"',
        "\\",
        "#",
        "@",
        "?",
        "&",
        "(",
        "[",
        "{",
        "!",
        "<",
    ),
    *("\0", "\x1b", "é", "\N{RIGHT-TO-LEFT OVERRIDE}", "e\N{COMBINING ACUTE ACCENT}"),
    *("token", "token=", "a:", "://", "://a@", "Bearer ", "sk-", "=token:", "-p\n", "?token", "&key"),
    *("/slurm", "/slurm_a/uid_", "/kubepods", "/kubepods/pod", "job_id=1\n", "a=\n", "1\x1f"),
    *(
        "| ",
        "| GPU ID | Device Information |\n",
        "| 0 | Name: a |\n",
        "-> ",
        "(EntityID: ",
        "GPU-",
        "GPU 0 ",
        "...",
        "0.",
    ),
    *("a{", 'a{b="', 'a{b="c",', "# HELP a ", "# TYPE a gauge\n", "a 1\n", "\\n", "a{}", "# ", "\n# Entity"),
    *(
        "NVRM: ",
        "0000:3b:00.0 ",
        "NVRM: Xid (",
        "<4>",
        "[ 1.0] ",
        "3,1,1,-;",
        "__CURSOR=a\n",
        "MESSAGE\n",
        "Nov 23 ",
        "\\x0a",
    ),
    *(
        "a in (b),",
        "!a,",
        "a[1-",
        "a[1],",
        "[",
        "n[1-9]",
        "v1.2.3-",
        "RTX ",
        "1g.",
        "80GB ",
        "1 GB",
        "percent ",
        "0 to ",
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_long_texts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    slow = []
    for part, end in product(PARTS, ("", "\0")):
        text = part * (LENGTH // len(part)) + end
        try:
            with limited(), contextlib.suppress(PulsedError, ValueError):
                READERS[name](text)
        except TooSlow:
            slow.append(f"{part!r} * {LENGTH // len(part)} + {end!r}")
            break
    assert slow == []
