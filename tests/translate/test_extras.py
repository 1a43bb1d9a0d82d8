"""Metrics of the exporter's own whose labels say what they are about."""

from __future__ import annotations

import math

from pulsed.model.tick import Extras, Tick
from pulsed.translate.extras import unknown_fields
from pulsed.translate.translator import Translator
from tests.support.ticks import extras_of
from tests.translate.build import Row, dmon_ticks, page_tick, tick

GPU = {"gpu": "0", "UUID": "GPU-0"}

PAGE = """\
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0",Hostname="n"} 40
DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-1",Hostname="n"} 41
DCGM_EXP_XID_ERRORS_COUNT{gpu="0",UUID="GPU-0",Hostname="n",window_size_in_ms="300000",xid="31"} 2
DCGM_EXP_XID_ERRORS_COUNT{gpu="0",UUID="GPU-0",Hostname="n",window_size_in_ms="300000",xid="79"} 1
DCGM_EXP_XID_ERRORS_COUNT{gpu="1",UUID="GPU-1",Hostname="n",window_size_in_ms="300000"} 0
DCGM_EXP_XID_ERRORS_TOTAL{gpu="1",UUID="GPU-1",Hostname="n",xid="13"} 4
DCGM_EXP_GPU_HEALTH_STATUS{gpu="1",UUID="GPU-1",Hostname="n",health_watch="MEM",health_error_code="DCGM_FR_X"} 20
DCGM_EXP_CLOCK_EVENTS_COUNT{gpu="1",UUID="GPU-1",Hostname="n",clock_event="hw_thermal",window_size_in_ms="300000"} 3
"""


def extras(page: str) -> Tick:
    return Translator("n").translate(page_tick(page))


def test_labelled_metrics_go_to_their_gpu() -> None:
    found = extras_of(extras(PAGE))
    assert found == {
        0: Extras(xid_counts=((31, 2.0), (79, 1.0))),
        1: Extras(
            xid_counts=(),
            xid_totals=((13, 4.0),),
            health_watches=((("MEM", "DCGM_FR_X"), 20.0),),
            clock_events=(("hw_thermal", 3.0),),
        ),
    }


LINKS = """\
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0",Hostname="n"} 40
DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-1",Hostname="n"} 41
DCGM_FI_DEV_NVLINK_GET_STATE{nvlink="0",gpu="0",gpu_uuid="GPU-0",hostname="n"} 1
DCGM_FI_DEV_NVLINK_GET_STATE{nvlink="17",gpu="0",gpu_uuid="GPU-0",hostname="n"} 0
DCGM_FI_DEV_NVLINK_LINK_STATUS{nvlink="2",gpu="1",hostname="n"} 1
DCGM_FI_DEV_NVLINK_GET_STATE{nvlink="3",gpu="7",gpu_uuid="GPU-7",hostname="n"} 0
DCGM_FI_DEV_NVLINK_GET_STATE{nvlink="4",gpu="1",hostname="n"} 9223372036854775794
"""


def test_the_states_of_links_go_to_their_gpu() -> None:
    found = extras(LINKS)
    assert [device.entity.uuid for device in found.devices] == ["GPU-0", "GPU-1"]
    assert extras_of(found) == {0: Extras(nvlink_states=((0, 1.0), (17, 0.0))), 1: Extras(nvlink_states=((2, 1.0),))}


COUNTERS = """\
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0",Hostname="n"} 40
DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L14{gpu="0",UUID="GPU-0",Hostname="n"} 505
DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_L3_TOTAL{gpu="0",UUID="GPU-0",Hostname="n"} 2
DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL{gpu="0",UUID="GPU-0",Hostname="n"} 2
DCGM_FI_DEV_NVLINK_BANDWIDTH_L3{gpu="0",UUID="GPU-0",Hostname="n"} 9
DCGM_FI_DEV_NVLINK_REPLAY_ERROR_PER_LINK_TOTAL{nvlink="3",gpu="0",gpu_uuid="GPU-0"} 4
DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS{nvlink="14",gpu="0",gpu_uuid="GPU-0"} 7
DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES{nvlink="14",gpu="0",gpu_uuid="GPU-0"} 7
DCGM_FI_DEV_NVLINK_COUNT_RX_ERRORS{nvlink="2",nvswitch="1"} 7
"""


def test_the_counters_of_links_go_to_their_gpu() -> None:
    (found,) = extras_of(extras(COUNTERS)).values()
    assert found.nvlink_counters == (
        (3, (("crc_flit_errors", 2.0), ("replay_errors", 4.0))),
        (14, (("link_recoveries_successful", 7.0), ("recovery_errors", 505.0))),
    )


def test_lanes_of_dmon() -> None:
    (page,) = dmon_ticks("#Entity   GPUTL NRCL0 NRCL14\nID\nGPU 0      50    0   505\n")
    (found,) = extras_of(Translator("n").translate(page)).values()
    assert found.nvlink_counters == ((0, (("recovery_errors", 0.0),)), (14, (("recovery_errors", 505.0),)))


def test_a_page_without_these_metrics_has_no_extras() -> None:
    page = "\n".join(line for line in PAGE.splitlines() if line.startswith("DCGM_FI_")) + "\n"
    assert extras_of(extras(page)) == {}


def test_what_instances_repeat_goes_to_the_board() -> None:
    page = """\
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0",GPU_I_ID="1",GPU_I_PROFILE="1g.10gb",Hostname="n"} 40
DCGM_EXP_XID_ERRORS_COUNT{gpu="0",UUID="GPU-0",GPU_I_ID="1",GPU_I_PROFILE="1g.10gb",Hostname="n",xid="94"} 1
DCGM_EXP_XID_ERRORS_COUNT{gpu="0",UUID="GPU-0",GPU_I_ID="2",GPU_I_PROFILE="1g.10gb",Hostname="n",xid="94"} 3
"""
    canonical = extras(page)
    assert [device.entity.kind for device in canonical.devices] == ["gpu", "mig", "mig"]
    assert extras_of(canonical) == {0: Extras(xid_counts=((94, 3.0),))}


def test_a_blank_is_no_count() -> None:
    labels = {"gpu": "0", "UUID": "GPU-0", "xid": "31"}
    for blank in (9223372036854775794.0, 140737488355328.0, 2147483632.0, math.nan, -1.0, None):
        rows: list[Row] = [("DCGM_FI_DEV_GPU_TEMP", labels, 40.0), ("DCGM_EXP_XID_ERRORS_COUNT", labels, blank)]
        assert extras_of(Translator("n").translate(tick(rows))) == {}


def test_names_like_those_of_dcgm_that_no_table_has() -> None:
    rows = [
        *("DCGM_FI_DEV_GPU_TEMP", "dcgm_fi_dev_gpu_temp", "DCGM_FI_DEV_GPU_TEMP_total", "DCGM_EXP_XID_ERRORS_COUNT"),
        *(
            "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L3",
            "DCGM_FI_DEV_CPU_TEMP_CURRENT",
            "up",
            "pulsed_x",
            "DCGM_FI_NEW",
        ),
        *("DCGM_FI_NEW", "dcgm_fi_dev_gpu_tmp", "DCGM_FI_DRIVER_VERSION"),
    ]
    layout = tick([(name, GPU, 1.0) for name in rows]).layout
    assert unknown_fields(layout) == ("DCGM_FI_NEW", "dcgm_fi_dev_gpu_tmp")
