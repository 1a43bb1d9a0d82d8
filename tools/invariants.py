"""Compares what this checkout shows with what another commit shows. Run as `python -m tools.invariants COMMIT`.

For changes that must not change any output: every input of `inputs` is replayed with both, and pages, documents, CSV,
messages and help texts are compared byte for byte. Only the command line and HTTP are used, so that it works across any
change of the code. What differs from run to run (ages, the process) is masked.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "invariants"

COMMANDS = (
    *("serve", "snapshot", "export", "record", "doctor", "counters", "health", "job", "top", "rules"),
    "check-config",
)
TEXTS = (
    ("--help",),
    ("--version",),
    *((command, "--help") for command in COMMANDS),
    ("rules",),
    ("rules", "--format", "kubernetes", "--labels", "release=prometheus"),
    *(
        ("counters", "--exporter-version", version)
        for version in ("2.4.0-2.6.0", "3.1.7-3.1.4", "3.3.9-3.6.1", "4.4.1-4.5.2")
    ),
    ("counters", "--model", "Tesla T4"),
    ("snapshot", "--source", "demo", "--format", "csv", "--columns", "nothing"),
    *(("export", "--columns", "nothing", "--schema", schema) for schema in ("pulsed", "kempnerpulse")),
    *(
        ("snapshot", "--set", setting)
        for setting in ("listen=9401", "nothing=1", "source.kind=x", "gpus=a b", "source.interval=-1s")
    ),
    *((command,) for command in ("nothing", "check-config")),
)
"""Arguments of commands that print text and end."""

PATHS = """
    /metrics /gpus /gpus?view=summary /gpus/0 /gpus/0/class /jobs?limit=1000
    /jobs?state=ended&user=u1 /workloads /workloads?by=pod /workloads?by=job
    /container/metrics /container/metrics?derived=1&null=1 /health/gpus /health/gpus?format=line
    /events/recent?limit=1000 /catalog /config /openapi.json /history?points=2000&seconds=86400
    /history?points=7&gpu=0&fields=all /gpus/1/history?seconds=86400 /gpus/99 /jobs/none
    /history?points=0 /gpus?fields=nothing /nothing /-/reload
""".split()  # noqa: SIM905
"""What is requested of a daemon, with errors."""

_OF_THIS_RUN = re.compile(
    r"^(?:# (?:HELP|TYPE|UNIT) )?(?:process_|pulsed_build|pulsed_tick_duration|pulsed_http_|pulsed_process|"
    r"pulsed_history|pulsed_source_read|\w+_age_seconds|pulsed_\w*last_).*\n",
    re.MULTILINE,
)
"""Lines of pages about the process and the time of the run."""

_TIME = re.compile(
    r'"?(?<!\d)(?!2026-01-0)20\d\d-\d\d-\d\dT[\d:.]+Z"?|logger=\S+'
    r"|(?<![\d.])1(?:79\d{7}|8\d{8})(?:\.\d+)?(?![\d.])"
)
"""Times outside of the recordings, which begin with 2026, and the modules of log lines."""

_VOLATILE = re.compile(r'("(?:age_seconds|port|cpu_ratio|host_cpu_ratio|sequence)": ?)[\d.e+-]+')
"""Numbers of documents about the time of the run."""


def inputs(folder: Path) -> None:
    """Write the recorded inputs: pages, captures of every layout of dmon, and a day of jobs."""
    from tests.golden.test_golden import write_capture
    from tests.support.dmon_writer import ERAS  # not at the top: `write` runs with the code of another commit
    from tests.support.samples import SAMPLES

    for page in sorted((ROOT / "tests" / "golden" / "pages").iterdir()):
        shutil.copy(page, folder)
    for era in ERAS:
        for split in (False, True):
            write_capture(folder / f"dmon-{era}{'-mig' if split else ''}.txt", era, split)
    for sample in sorted([*SAMPLES.glob("dmon/*.txt"), *SAMPLES.glob("exporter/*.prom")]):
        shutil.copy(sample, folder)
    shutil.copytree(ROOT / "tests" / "config" / "fixtures", folder / "configurations")
    day_of_jobs(folder / "day")


def day_of_jobs(folder: Path) -> None:
    """Write 480 pages of 4 GPUs, one for every 3 minutes: pods and jobs that come, share, go, hang and idle."""
    folder.mkdir()
    for number in range(480):
        lines = []
        for gpu in range(4):
            slot = (number + 37 * gpu) // 60
            owner = ("", f'hpc_job="{4700 + slot % 5}"', f'pod="trainer-{slot % 3}",namespace="ml",container="main"')[
                (slot + gpu) % 3
            ]
            if number % 97 == 5 + gpu:
                continue
            busy = 0.0 if slot % 4 == 3 else ((number * 7 + gpu * 13) % 50 + 50) / 100
            labels = f'gpu="{gpu}",UUID="GPU-0000000{gpu}",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"'
            labels += "," * bool(owner) + owner
            values = {
                "DCGM_FI_PROF_SM_ACTIVE": busy,
                "DCGM_FI_PROF_GR_ENGINE_ACTIVE": min(1.0, busy * 1.1),
                "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": round(busy * (slot % 3) / 3, 4),
                "DCGM_FI_PROF_DRAM_ACTIVE": round(busy / (1 + slot % 2), 4),
                "DCGM_FI_PROF_PIPE_FP64_ACTIVE": 0,
                "DCGM_FI_PROF_PCIE_TX_BYTES": int(busy * 1e9),
                "DCGM_FI_PROF_PCIE_RX_BYTES": int(busy * 2e9),
                "DCGM_FI_DEV_GPU_UTIL": int(busy * 100),
                "DCGM_FI_DEV_FB_USED": 1000 + slot * 1000,
                "DCGM_FI_DEV_FB_FREE": 79000 - slot * 1000,
                "DCGM_FI_DEV_POWER_USAGE": 70 + busy * 500,
                "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": number * 180 * 300000 + gpu,
                "DCGM_FI_DEV_GPU_TEMP": 40 + int(busy * 40),
                "DCGM_FI_DEV_XID_ERRORS": 43 if number == 200 and gpu == 1 else 0,
                "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": int(number > 300 and gpu == 2),
                "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": 8 if slot % 5 == 2 else 0,
            }
            lines += [f"{name}{{{labels}}} {value}\n" for name, value in values.items()]
        (folder / f"page-{number:04}.prom").write_text("".join(lines))


def write(data: Path, folder: Path) -> None:
    """Write what the code in the current folder shows of the inputs."""
    from pulsed.cli import main

    def printed(*arguments: str) -> str:
        out, err = io.StringIO(newline=""), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code: object = main(arguments)
            except SystemExit as end:
                code = end.code
        return f"exit code {code}\n{out.getvalue()}\n-- errors\n{err.getvalue()}"

    def keep(name: str, text: str) -> None:
        (folder / re.sub(r"[^\w.=-]", "_", name)).write_text(masked(text))

    for arguments in TEXTS:
        keep(" ".join(arguments), printed(*arguments))
    for path in sorted((data / "configurations").glob("*.yml")):
        keep(f"check {path.name}", printed("check-config", str(path)))
    for path in sorted(data.iterdir()):
        if path.name == "configurations":
            continue
        replay = (
            "--set",
            "source.kind=replay",
            "--set",
            f"source.replay.path={path}",
            "--set",
            "source.replay.speed=0",
            "--set",
            "node=n",
        )
        for kind in ("table", "json", "csv", "prometheus"):
            keep(f"snapshot {kind} {path.name}", printed("snapshot", *replay, "--format", kind))
        keep(f"export {path.name}", printed("export", *replay))
        keep(f"export full {path.name}", printed("export", *replay, "--columns", "all", "--set", "publish.series=full"))
        keep(
            f"export kempnerpulse {path.name}",
            printed("export", *replay, "--schema", "kempnerpulse", "--columns", "all"),
        )
    for name in ("day", "exporter-4.8-mig.prom", "dmon-A.txt"):
        daemon(data / name, folder)


def daemon(path: Path, folder: Path) -> None:
    """Keep what a daemon answers after it has replayed an input."""
    support = "tests.support" if Path("tests/support").exists() else "support"  # of the commit whose code runs
    serving = importlib.import_module(f"{support}.daemon").serving
    until = importlib.import_module(f"{support}.waiting").until

    settings = (
        "source.kind=replay", f"source.replay.path={path}", "source.replay.speed=0", "source.interval=180s", "node=n",
        "publish.passthrough=true", "history.seconds=86400s", "publish.compat=[jobstats]",
    )  # fmt: skip
    flags = [each for setting in settings for each in ("--set", setting)]
    with tempfile.TemporaryDirectory() as logs, serving(Path(logs), *flags) as process:
        until(lambda: "the source has ended" in process.log() or "ended" in process.log(), seconds=120)
        for each in PATHS:
            answer = process.get(each)
            body = masked(answer.text).replace(f":{process.port}", ":PORT")  # not as a part of a time
            (folder / re.sub(r"[^\w.=-]", "_", f"daemon {path.name} {each}")).write_text(f"{answer.status}\n{body}")


def masked(text: str) -> str:
    """Return a page or document without what differs from run to run."""
    if text.startswith("{"):
        with contextlib.suppress(ValueError):
            text = json.dumps(json.loads(text), indent=1, ensure_ascii=False)
    return _VOLATILE.sub(r"\1...", _TIME.sub("TIME", _OF_THIS_RUN.sub("", text)))


def shown(root: Path, data: Path, folder: Path) -> None:
    """Run `write` with the code of a checkout."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PULSED_")}
    code = "import sys, runpy; runpy.run_path(sys.argv[1])['write'](*map(__import__('pathlib').Path, sys.argv[2:]))"
    subprocess.run(
        [sys.executable, "-c", code, __file__, data, folder],
        cwd=root,
        env=environment | {"PYTHONPATH": str(root), "COLUMNS": "120", "TZ": "UTC", "PYTHONHASHSEED": "0"},
        check=True,
    )


def differences(before: Path, after: Path) -> Iterator[str]:
    """Yield what differs between two folders, as unified diffs."""
    for name in sorted({path.name for folder in (before, after) for path in folder.iterdir()}):
        old, new = ((folder / name).read_text() if (folder / name).exists() else "" for folder in (before, after))
        if old != new:
            diff = difflib.unified_diff(
                old.splitlines(), new.splitlines(), f"before: {name}", f"now: {name}", "", "", 1, ""
            )
            yield "\n".join(line[:400] for line in list(diff)[:40])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("commit", help="to compare with")
    commit = parser.parse_args().commit
    revision = subprocess.run(
        ["git", "rev-parse", f"{commit}^{{commit}}"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    data, kept = BUILD / "inputs", BUILD / revision
    if not kept.exists():
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(parents=True)
        inputs(data)
        checkout = BUILD / "checkout"
        subprocess.run(["git", "worktree", "add", "--force", "--detach", checkout, revision], cwd=ROOT, check=True)
        try:
            shown(checkout, data, kept)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", checkout], cwd=ROOT, check=True)
    shown(ROOT, data, BUILD / "now")
    found = list(differences(kept, BUILD / "now"))
    print("\n\n".join(found) or f"no difference from {commit} in {len(list(kept.iterdir()))} outputs")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
