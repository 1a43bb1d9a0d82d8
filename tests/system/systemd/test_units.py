"""The units hold what their README says, and systemd's own tools agree."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from pulsed.config.configuration import check
from tests.support.tools import tool
from tests.support.waiting import SECONDS

FOLDER = Path(__file__).parents[3] / "systemd"
NEWER_KEY = re.compile(r"Unknown key (name )?'(RestartSteps|RestartMaxDelaySec)'")
"""Keys of systemd 254, which older ones ignore."""

README = (FOLDER / "README.md").read_text(encoding="utf-8")


def complaints(output: str) -> list[str]:
    return [line for line in output.splitlines() if "pulsed" in line and not NEWER_KEY.search(line)]


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units, with a program that is there."""
    for name in ("pulsed.service", "pulsed.socket"):
        text = (FOLDER / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace("/opt/pulsed/bin/pulsed", "/bin/true"), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", ["pulsed.service", "pulsed.socket"])
def test_systemd_finds_nothing_wrong(units: Path, name: str) -> None:
    analyze = tool("systemd-analyze", "systemd")
    done = subprocess.run(
        [analyze, "verify", "--man=no", units / name], capture_output=True, text=True, timeout=2 * SECONDS, check=False
    )
    assert (done.returncode, complaints(done.stderr)) == (0, [])


def test_the_drop_in_for_nvml_opens_the_drivers_devices_and_nothing_else(units: Path) -> None:
    analyze = tool("systemd-analyze", "systemd")
    drop_in = (FOLDER / "pulsed-nvml.conf").read_text(encoding="utf-8")
    assert re.findall(r"^(?!#|\[)(\S+)$", drop_in, re.MULTILINE) == ["PrivateDevices=no"]
    assert re.findall(r"^DeviceAllow=(.*)$", drop_in, re.MULTILINE) == ["char-nvidia* rw"]
    folder = units / "pulsed.service.d"
    folder.mkdir()
    (folder / "nvml.conf").write_text(drop_in, encoding="utf-8")
    command = [analyze, "verify", "--man=no", str(units / "pulsed.service")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, check=False)
    assert (done.returncode, complaints(done.stderr)) == (0, [])


def test_the_sandbox_is_as_tight_as_the_readme_says(units: Path) -> None:
    analyze = tool("systemd-analyze", "systemd")
    done = subprocess.run(
        [analyze, "security", "--offline=true", "--no-pager", units / "pulsed.service"],
        capture_output=True,
        text=True,
        timeout=2 * SECONDS,
        check=True,
    )
    found = re.findall(r"Overall exposure level for pulsed.service: ([\d.]+)", done.stdout)
    reported = re.findall(r"reports ([\d.]+) of 10", README)
    assert reported == found
    assert float(found[0]) <= 2.0


def test_systemd_accepts_the_user_and_the_folders(tmp_path: Path) -> None:
    sysusers, tmpfiles = tool("systemd-sysusers", "systemd"), tool("systemd-tmpfiles", "systemd")
    (tmp_path / "etc").mkdir()
    for command, name in (([sysusers], "sysusers"), ([tmpfiles, "--create"], "tmpfiles")):
        done = subprocess.run(
            [*command, f"--root={tmp_path}", FOLDER / f"pulsed.{name}.conf"],
            capture_output=True,
            text=True,
            timeout=2 * SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert re.search(r"^pulsed:", (tmp_path / "etc/passwd").read_text(), re.MULTILINE)
    folder = tmp_path / "etc/pulsed"
    assert folder.stat().st_mode & 0o777 == 0o750


def test_every_file_of_the_recipe_is_there() -> None:
    named = set(re.findall(r"(?:(?<=644 )|(?<=640 )|(?<=/opt/pulsed/share/systemd/))([\w-][\w.-]*\w)", README)) - {
        "opt"
    }
    assert named == {path.name for path in FOLDER.iterdir()} - {"README.md"}


def test_the_recipe_installs_where_the_unit_looks() -> None:
    unit = (FOLDER / "pulsed.service").read_text(encoding="utf-8")
    for path in re.findall(r"(?:EnvironmentFile=-|ExecStart=|--config.file )(/\S+)", unit):
        assert path in README


def test_the_shipped_settings_are_right() -> None:
    config = check(FOLDER / "config.yaml")
    assert config.state_dir == "/var/lib/pulsed"
