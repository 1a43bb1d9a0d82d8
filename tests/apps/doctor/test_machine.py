"""What is found of NVIDIA's on a machine, on trees of files as Linux has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pulsed.apps.doctor.machine import Machine, advice, driver_version, inspect_machine


def device(root: Path, address: str, vendor: str, class_: str) -> None:
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "class").write_text(f"{class_}\n")


def test_the_driver_is_read_from_proc(tmp_path: Path) -> None:
    assert driver_version(tmp_path) == ""
    file = tmp_path / "proc/driver/nvidia/version"
    file.parent.mkdir(parents=True)
    file.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n")
    assert driver_version(tmp_path) == "535.129.03"
    file.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build\n")
    assert driver_version(tmp_path) == "570.124.06"
    file.write_text("something else\n")
    assert driver_version(tmp_path) == "unknown"


def test_an_empty_machine(tmp_path: Path) -> None:
    found = inspect_machine(tmp_path, "libnone.so.1")
    assert (found.gpus_on_bus, found.driver, found.device_files, found.has_nvml) == (0, "", (), False)
    assert found.kernel_log_error.startswith(f"{tmp_path}/dev/kmsg: No such file")


def test_a_machine_with_gpus(tmp_path: Path) -> None:
    device(tmp_path, "0000:1b:00.0", "0x10de", "0x030200")
    device(tmp_path, "0000:2c:00.0", "0x10de", "0x030000")
    device(tmp_path, "0000:2c:00.1", "0x10de", "0x040300")  # the sound of a display
    device(tmp_path, "0000:00:02.0", "0x8086", "0x030000")
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "kmsg"):
        (tmp_path / "dev" / name).touch()
    found = inspect_machine(tmp_path, "libc.so.6")
    assert found == Machine(2, "", ("nvidia0", "nvidia1"), has_nvml=True, kernel_log="/dev/kmsg")


def test_the_kernel_log_is_the_configured_one(tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_text("23/Nov/2026 hello\n")
    error = inspect_machine(tmp_path, "libnone.so.1", "/kern.log").kernel_log_error
    assert error.startswith(f"{tmp_path}/kern.log: the format of its lines is not known: '00/xxx/0000 xxxxx'")
    assert inspect_machine(tmp_path, "libnone.so.1", "").kernel_log_error == ""


def test_a_process_that_ends_meanwhile_is_not_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for process, name in (("41", "nv-hostengine"), ("42", "bash")):
        (tmp_path / "proc" / process).mkdir(parents=True)
        (tmp_path / "proc" / process / "comm").write_text(f"{name}\n")
    plain = os.stat

    def stat(path: str | Path, *more: object, **named: object) -> os.stat_result:
        if str(path).endswith("42/comm"):
            raise ProcessLookupError
        return plain(path, *more, **named)  # type: ignore[arg-type]  # as os.stat

    monkeypatch.setattr(os, "stat", stat)
    assert inspect_machine(tmp_path, "libnone.so.1").dcgm == ("nv-hostengine",)


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (Machine(0, "", (), has_nvml=False), "There is no NVIDIA GPU on this machine"),
        (Machine(8, "", (), has_nvml=False), "no driver is loaded: install the driver"),
        (Machine(8, "570.1", (), has_nvml=True), "docker run --gpus all"),
        (Machine(1, "570.1", ("nvidia0",), has_nvml=True), "install DCGM"),
    ],
)
def test_the_advice_fits_the_machine(machine: Machine, words: str) -> None:
    assert words in advice(machine)
