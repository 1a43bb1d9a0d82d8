"""Serial number and VBIOS of boards through the whole program: pages under both names, and dmon."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.golden.whole import replayed
from tests.support.dmon_writer import ERAS, DmonWriter

SERIAL, VBIOS = "1654123000123", "96.00.89.00.01"


def info_of(page: str) -> str:
    return next(line for line in page.splitlines() if line.startswith("pulsed_gpu_info{"))


@pytest.mark.parametrize("serial", ["DCGM_FI_DEV_SERIAL", "DCGM_FI_DEV_BOARD_SERIAL"])
async def test_a_page(serial: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    labels = f'gpu="0",UUID="GPU-0",{serial}="{SERIAL}",DCGM_FI_DEV_VBIOS_VERSION="{VBIOS}"'
    other = f'gpu="1",UUID="GPU-1",{serial}="<<<NOT_SUPPORTED>>>"'
    (tmp_path / "page.prom").write_text(
        "".join(f"DCGM_FI_DEV_GPU_TEMP{{{each}}} 40\n" for each in (labels, other)), encoding="utf-8"
    )
    full, lean = await replayed("page.prom", "publish.series=full"), await replayed("page.prom")
    assert f'serial="{SERIAL}",vbios_version="{VBIOS}"' in info_of(full.text)
    assert SERIAL not in lean.text
    gpu, without = json.loads(lean.gpus)["gpus"]
    assert (gpu["serial"], gpu["vbios_version"]) == (SERIAL, VBIOS)
    assert (without["serial"], without["vbios_version"]) == (None, None)


async def test_dmon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    layout = ERAS["C2"]
    writer = DmonWriter(layout, [150, 53, 85])
    text = writer.header() + "".join(writer.tick([("GPU 0", [40, SERIAL, VBIOS])]) for _ in range(3))
    (tmp_path / "capture.txt").write_text(text + layout.stopped)
    output = await replayed("capture.txt", "publish.series=full")
    assert f'serial="{SERIAL}",vbios_version="{VBIOS}"' in info_of(output.text)
