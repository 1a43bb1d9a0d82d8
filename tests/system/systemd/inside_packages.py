"""Runs inside a booted tree: installs, upgrades, removes and purges the packages, and reports, a line a step."""

from __future__ import annotations

import gzip
import os
import re
import shlex
import shutil
import subprocess
import time
from pathlib import Path

from tests.support.booted import (
    FOLDER,
    documented,
    enable_socket,
    page,
    refuse_wrong_file,
    report,
    run,
    serves,
    shown,
    until,
    value,
    wrong_start,
)

SETTINGS = Path("/etc/pulsed/config.yaml")
STATE = Path("/var/lib/pulsed/state.json")
DOCUMENTS = Path("/usr/share/doc/pulsed")
DEMO = Path("/etc/systemd/system/pulsed.service.d/demo.conf")
COUNTERS = "dcgm-exporter/counters-pulsed-classic.csv"
LISTING = FOLDER / "before"
OTHERS = ("proc", "sys", "dev", "run", "tmp", "check", "var/log", "var/cache", "var/tmp", "var/lib/apt", "var/lib/dpkg")
"""Folders that are not compared: of the running system, of the test, and of the package managers."""

WRITTEN_BY_SYSTEMS = {"/etc/.pwd.lock", "/etc/passwd-", "/etc/group-", "/etc/shadow-", "/etc/gshadow-", "/var/lib/rpm"}


def files() -> set[str]:
    """Return all files, and the lines of the users' and groups' files."""
    found = {line for name in ("passwd", "group", "shadow", "gshadow") for line in _lines(Path("/etc", name))}
    for folder, folders, names in os.walk("/"):
        base = folder.rstrip("/")
        folders[:] = [
            name
            for name in folders
            if f"{base}/{name}"[1:] not in OTHERS and f"{base}/{name}" not in WRITTEN_BY_SYSTEMS
        ]
        found |= {f"{base}/{name}" for name in (*folders, *names)}
    return {each for each in found if each not in WRITTEN_BY_SYSTEMS and "/var/lib/systemd/timers" not in each}


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def apt(*words: str | Path) -> str:
    return run("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--yes", "--quiet", *words)


def package(kind: str, folder: str) -> Path:
    (found,) = (FOLDER / folder).glob(f"*.{kind}")
    return found


def has_samples() -> bool:
    return value("pulsed_gpu_real_utilization_ratio") >= 0


def starts() -> int:
    return run("journalctl", "-u", "pulsed").count("Started pulsed.service")


def first_sample() -> str:
    """apt installs the package; the service starts, and shows a sample of the demo."""
    LISTING.write_text("\n".join(files()))
    DEMO.parent.mkdir()
    DEMO.write_text("[Service]\nEnvironment=PULSED_SOURCE__KIND=demo\n")
    started = time.monotonic()
    apt("install", package("deb", "old"))
    installed = time.monotonic()
    until(has_samples, "the first sample")
    seconds = time.monotonic()
    assert run("systemctl", "is-enabled", "pulsed") == "enabled"
    assert (shown("NRestarts"), shown("User")) == ("0", "pulsed")
    shutil.rmtree(DEMO.parent)
    run("systemctl", "daemon-reload")
    run("systemctl", "restart", "pulsed")
    size = run("du", "-sm", "/opt/pulsed").split()[0]
    return f"apt {installed - started:.1f} s, first sample {seconds - started:.1f} s, {size} MB with bytecode"


def contents() -> str:
    """Everything is where it belongs, and the commands run."""
    assert run("pulsed", "--version").startswith("pulsed ")
    assert "demo" in run("pulsed", "snapshot", "--source", "demo", "--format", "json")
    assert SETTINGS.stat().st_mode & 0o777 == 0o640
    assert (SETTINGS.group(), SETTINGS.parent.group()) == ("pulsed", "pulsed")
    share = Path("/opt/pulsed/share")
    for name in ("slurm/prolog.sh", "slurm/epilog.sh", "health/slurm-health-check.sh", "health/check_pulsed.sh"):
        assert os.access(share / name, os.X_OK), name
    for name in ("prometheus/rules/pulsed.yaml", "grafana/fleet.json", "systemd/pulsed-nvml.conf", COUNTERS):
        assert (share / name).exists(), name
    for path in (
        "/usr/share/man/man1/pulsed-serve.1.gz",
        "/usr/share/bash-completion/completions/pulsed",
        "/usr/share/fish/vendor_completions.d/pulsed.fish",
    ):
        assert Path(path).exists() or "man1" in path, path
    for name in ("README.md", "docs/health.md", "docs/operations.md", "docs/configuration.md", "docs/metrics.md"):
        assert (DOCUMENTS / name).stat().st_size > 1000, name
    for name in shlex.split(shown("Documentation")):
        assert name.startswith("man:") or Path(name.removeprefix("file:")).exists(), name
    if _is_deb():
        assert "pulsed (0." in gzip.decompress((DOCUMENTS / "changelog.gz").read_bytes()).decode()
    run("pulsed", "install-files", "/tmp/files")
    assert Path("/tmp/files/systemd/pulsed.service").read_text() == (share / "systemd/pulsed.service").read_text()
    shutil.rmtree("/tmp/files")
    run("dpkg", "--verify", "pulsed") if shutil.which("dpkg") and _is_deb() else run("rpm", "-V", "--nodeps", "pulsed")
    return run("du", "-sm", "/opt/pulsed").split()[0]


def _is_deb() -> bool:
    return "Status: install ok installed" in run("dpkg", "-s", "pulsed", check=False)


def reload() -> str:
    """A changed configuration is applied by a reload, in the same process."""
    before = shown("ExecMainPID")
    SETTINGS.write_text(SETTINGS.read_text().replace("kind: auto", "kind: demo"))
    run("systemctl", "reload", "pulsed")
    until(has_samples, "demo data")
    assert shown("ExecMainPID") == before
    until(STATE.exists, "the state file")
    return "same process"


def wrong_configuration() -> str:
    """A wrong file is refused by the running daemon, and backs off at a start."""
    good, before = SETTINGS.read_text(), shown("ExecMainPID")
    refuse_wrong_file(SETTINGS, good)
    assert shown("ExecMainPID") == before
    return wrong_start(SETTINGS, good, 12.0)


def documented_commands() -> str:
    """The commands that operators start with run as they are written, in tables too."""
    operations, units = ((DOCUMENTS / name).read_text() for name in ("docs/operations.md", "systemd/README.md"))
    (block,) = re.findall(r"^## Troubleshooting\n.*?```sh\n(.*?)```", operations, re.MULTILINE | re.DOTALL)
    commands = [line for line in block.splitlines() if not line.startswith("curl")]  # which this tree lacks
    commands += [documented(units, task) for task in ("list warnings and errors", "check a file as the service")]
    commands.append("systemctl reload pulsed")
    for command in commands:
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        allowed = (0, 1, 2) if command == "pulsed health" else (0,)
        assert done.returncode in allowed, f"{command}: {done.stdout}{done.stderr}"
    until(has_samples, "a sample")
    return f"{len(commands)} commands"


def sockets() -> str:
    """The README's command for a restart without a refused scrape works on the running service."""
    return enable_socket((DOCUMENTS / "systemd/README.md").read_text())


def _upgrade(kind: str) -> str:
    settings, before = SETTINGS.read_text(), starts()
    if kind == "deb":
        apt("install", package("deb", "new"))
    else:
        run("rpm", "--upgrade", "--nodeps", package("rpm", "new"))
    until(lambda: 'version="99.0"' in page(), "the new version")
    until(has_samples, "a sample of the kept configuration")
    assert (SETTINGS.read_text(), SETTINGS.group()) == (settings, "pulsed")
    assert STATE.exists()
    assert "set aside" not in run("journalctl", "-u", "pulsed", "-n", "50")
    assert starts() == before + 1, "restarts"
    return "restarted once"


def upgrade() -> str:
    """A package of a later version keeps configuration and state."""
    return _upgrade("deb")


def remove() -> str:
    """Removal stops the service and keeps configuration and state."""
    apt("remove", "pulsed")
    assert run("systemctl", "is-active", "pulsed", check=False) == "inactive"
    assert not Path("/opt/pulsed").exists(), run("find", "/opt/pulsed", check=False)
    assert not Path("/usr/bin/pulsed").is_symlink()
    assert (SETTINGS.exists(), STATE.exists()) == (True, True)
    return "kept configuration and state"


def purge() -> str:
    """After a purge the system has the files and users that it had before."""
    apt("purge", "pulsed")
    before = set(LISTING.read_text().splitlines())
    after = files() | {"/opt"}  # which no package of Debian has: dpkg removes it when it is empty
    assert after == before, f"left {sorted(after - before)}, missing {sorted(before - after)}"
    listed = run("systemctl", "list-units", "--all", "--no-legend", "--plain", "pulsed*").splitlines()
    # systemd forgets a unit later, or not at all if its control group cannot be read.
    assert all(unit.split()[1:3] == ["not-found", "inactive"] for unit in listed), listed
    return f"{len(after)} files, as before"


def rpm_install() -> str:
    """The rpm, with the rpm of Debian: its dependencies are names of another distribution."""
    run("rpm", "--install", "--nodeps", package("rpm", "old"))
    run("systemctl", "enable", "--now", "pulsed")
    until(serves, "the page")
    return contents()


def rpm_reload() -> str:
    return reload()


def rpm_upgrade() -> str:
    return _upgrade("rpm")


def rpm_remove() -> str:
    """Removal leaves a changed configuration as .rpmsave, state and user: an rpm has no purge."""
    run("rpm", "--erase", "--nodeps", "pulsed")
    assert run("systemctl", "is-active", "pulsed", check=False) == "inactive"
    left = {each for each in files() - set(LISTING.read_text().splitlines()) if "pulsed" in each}
    allowed = ("/etc/pulsed", "/var/lib/pulsed", "pulsed:")
    others = {each for each in left if not each.startswith(allowed)}
    assert not others, others
    assert "/etc/pulsed/config.yaml.rpmsave" in left
    return f"left {sorted(each for each in left if each.startswith('/'))}"


DEB = (first_sample, contents, reload, documented_commands, wrong_configuration, sockets, upgrade, remove, purge)
RPM = (rpm_install, rpm_reload, rpm_upgrade, rpm_remove)

report((*DEB, *(RPM if shutil.which("rpm") else ())))
