"""The runbook of each check: how to verify a fault, what to try, and when to give up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple


class Steps(NamedTuple):
    """The runbook of a check; its texts follow a colon.

    Attributes:
        verify: the command that shows the fault without pulsed, and what to look for.
        attempt: what to try, in this order; empty where the remedy of the check is all.
        give_up: when it is a case for the vendor, or for others; empty where the head of the chapter has it.
    """

    verify: str
    attempt: str
    give_up: str


_HEAT = ""  # at the head of the chapter, as for links
_LINK = ""
_RMA = "at once"

RUNBOOK: Mapping[str, Steps] = {
    "gpu_lost": Steps(
        "`nvidia-smi -L` lacks it or hangs; `lspci -d 10de:` lacks it or shows `rev ff`",
        "a power cycle",
        "lost again within 30 days after the board was reseated",
    ),
    "recovery_action": Steps(
        "`nvidia-smi -q`: GPU Recovery Action",
        "where a reset is refused, restart the node",
        "the driver requests it again",
    ),
    "telemetry": Steps(
        "`dcgmi discovery -l` and the exporter's page; `nvidia-smi` answers within seconds",
        "restart the exporter, then the host engine",
        "nvidia-smi hangs after a restart of the node",
    ),
    "xid_critical": Steps(
        "`dmesg -T`: `NVRM: Xid`, the first of a burst is the cause",
        "`dcgmi diag -r 3` afterwards",
        "the code returns under another job, or the diagnostic fails",
    ),
    "xid_warning": Steps(
        "`dmesg -T`: the code, its process, other GPUs with it",
        "run another program; if all GPUs have it: the job, driver or fabric",
        "programs of several owners raise it on this GPU only",
    ),
    "xid_repeat": Steps(
        "`dmesg -T`: time and process of each burst",
        "`dcgmi diag -r 3` on the drained node",
        "the diagnostic fails, or the code comes with every program",
    ),
    "ecc_uncorrectable": Steps(
        "`nvidia-smi -q -d ECC,ROW_REMAPPER`",
        "after the reset `dcgmi diag -r 3`",
        "errors return after the reset, or a remapping failed",
    ),
    "memory_unrepairable": Steps("`nvidia-smi -q -d ECC`: SRAM threshold, unrepairable memory", "", _RMA),
    "ecc_correctable_rate": Steps(
        "`nvidia-smi -q -d ECC`, twice, an hour apart",
        "",
        "uncorrected errors or remapped rows follow",
    ),
    "row_remap_failed": Steps("`nvidia-smi -q -d ROW_REMAPPER`: Remapping Failure Occurred", "", _RMA),
    "row_remap_pending": Steps(
        "`nvidia-smi -q -d ROW_REMAPPER,PAGE_RETIREMENT`: Pending", "", "pending again after a reset"
    ),
    "row_remap_growth": Steps(
        "`nvidia-smi -q -d ROW_REMAPPER`: the histogram of banks",
        "`dcgmi diag -r 3`",
        "a bank has no spare row, or rows are replaced every week",
    ),
    "retired_pages": Steps("`nvidia-smi -q -d PAGE_RETIREMENT`", "reset the GPU if pages are pending", "at 63 pages"),
    "thermal_hw": Steps(
        "`nvidia-smi -q -d PERFORMANCE,TEMPERATURE`; `ipmitool sdr type Fan`",
        "filters, blanking panels; stop the load if clocks stay at a half",
        _HEAT,
    ),
    "thermal_sw": Steps("`nvidia-smi -q -d PERFORMANCE,TEMPERATURE`", "raise the fan profile, spread jobs", _HEAT),
    "temp_margin": Steps("`nvidia-smi -q -d TEMPERATURE`: T.Limit", "lower the power limit", _HEAT),
    "temp_gpu": Steps("`nvidia-smi -q -d TEMPERATURE`", "lower the power limit", _HEAT),
    "temp_memory": Steps("`nvidia-smi -q -d TEMPERATURE`: Memory", "raise the fan profile", _HEAT),
    "hot_idle": Steps("`nvidia-smi`: temperature, power and processes", "", _HEAT),
    "power_brake": Steps(
        "`nvidia-smi -q -d PERFORMANCE`; `ipmitool sdr type 'Power Supply'`, `ipmitool sel list`",
        "the limit of rack or PDU",
        "supplies and rack are fine: the node's board",
    ),
    "hw_slowdown": Steps(
        "`nvidia-smi -q -d PERFORMANCE` while it lasts; `ipmitool sel list`",
        "rule out heat and power; update the firmware",
        "it follows the GPU to another slot",
    ),
    "pcie_replay": Steps(
        "`dmesg -T`: AER messages; `lspci -vv -s ADDRESS`", "another slot",
        "errors that follow the board: the board; otherwise the node",
    ),
    "pcie_link": Steps(
        "`lspci -vv -s ADDRESS` under load: LnkCap against LnkSta", "another slot",
        "the link stays short there",
    ),
    "nvlink_errors": Steps("`nvidia-smi nvlink -e -i GPU`, twice", "reseat cable or bridge", _LINK),
    "nvlink_down": Steps(
        "`nvidia-smi nvlink -s -i GPU`; `systemctl status nvidia-fabricmanager`",
        "", _LINK,
    ),
    "nvlink_fault": Steps(
        "`dmesg -T`: the earliest of XIDs 144 to 150 in the rack", "the action of its code at the origin",
        _LINK,
    ),
    "fabric_link": Steps(
        "`nvidia-smi -q`: Fabric; `journalctl -u nvidia-fabricmanager`",
        "compare the versions of driver and fabric manager",
        "the log names the same switch or trunk after a restart",
    ),
    "c2c_errors": Steps("`nvidia-smi c2c -s`", "", "the rate stays higher than on other nodes"),
    "imex": Steps(
        "`nvidia-imex-ctl -N` on a node of the domain", "the firewall between the nodes",
        "nodes answer each other and the domain stays down",
    ),
    "dcgm_diag": Steps("`dcgmi diag -r 2 -j`", "run it with `-r 3` on the drained node", "the same test fails twice"),
    "dcgm_health": Steps("`dcgmi health -c -g 0`", "", "it stays after reset and restart"),
    "config_drift": Steps(
        "`nvidia-smi -q` of two GPUs", "`nvidia-smi -e 1`, `nvidia-smi -pm 1`, a reset",
        "the InfoROM stays invalid",
    ),
    "smoothing_wear": Steps("the reading in `/gpus`", "", "plan the service now"),
    "gpu_missing": Steps(
        "`nvidia-smi -L` against `lspci -d 10de:`; `dmesg -T`: RmInitAdapter", "",
        "the driver cannot start it after it was reseated",
    ),
    "gpu_count": Steps("`nvidia-smi -L`, `lspci -d 10de:`", "", "the GPU is not on the bus after a restart"),
    "driver_hung": Steps(
        "`ps -eo pid,stat,wchan:32,comm`: state D; `cat /proc/PID/stack`", "power-cycle a node that does not restart",
        "it hangs again with the same driver",
    ),
    "nvswitch_error": Steps(
        "`dmesg -T`: SXid; `journalctl -u nvidia-fabricmanager`", "", _LINK,
    ),
    "ib_link_down": Steps("`ibstat`; `mlxlink -d DEVICE`", "exchange the cable with a port that works", _LINK),
    "ib_link_degraded": Steps("`mlxlink -d DEVICE`: speed and width", "reset the port, exchange the cable", _LINK),
    "ib_errors": Steps("`perfquery -x`, twice; `mlxlink -d DEVICE -c`", "clean, then exchange the cable", _LINK),
}  # fmt: skip
"""By check of GPUs and of the node."""


ALERTS: Mapping[str, str] = {
    "PulsedGpuIdleHeld": "Contact the owner to release it: [who wastes GPUs](who-wastes-gpus.md)",
    "PulsedGpuLowRealUtilization": "`pulsed job` has the cause: [why](who-wastes-gpus.md#why)",
    "PulsedGpuIdleEnergy": "Limit how long jobs and notebooks may hold idle GPUs",
    "PulsedHangSuspected": "Look at logs and stacks of all ranks (py-spy, NCCL_DEBUG), restart the job; `pulsed "
    "job` names the GPU that stopped first",
    "PulsedStraggler": "`pulsed health`: temperature and clocks, then the host; `pulsed job` has the numbers",
    "PulsedLeakedMemory": "`nvidia-smi`, `fuser /dev/nvidia*`: end the process without owner, or reset the GPU",
    "PulsedJobIdle": "Contact the owner to release them: [why](who-wastes-gpus.md#why)",
    "PulsedJobLowRealUtilization": "`pulsed job` has the cause: [why](who-wastes-gpus.md#why)",
    "PulsedGpuGone": "`nvidia-smi` on the node lacks the GPU: drain and restart the node; otherwise restart the "
    "exporter. Removed on purpose: silence the alert, which ends within a day",
    "PulsedDaemonDown": "`systemctl status pulsed` or `kubectl get pods`; then the way from Prometheus to it. Nodes "
    "that left the cluster raise none where kube-state-metrics has `kube_node_info`; otherwise silence it",
    "PulsedNodeWithoutGpus": "`systemctl status pulsed`, `nvidia-smi -L`; removed on purpose: silence it. Nodes that "
    "left the cluster raise none where kube-state-metrics has `kube_node_info`; otherwise it ends within a day",
    "PulsedSourceDown": "`curl localhost:9401/-/ready`: [source errors](operations.md#source-errors). GPUs are not "
    "monitored",
    "PulsedNoData": "`pulsed doctor`: the source has no GPU, or the key `gpus` selects none",
    "PulsedSourceRestarting": "`systemctl status nvidia-dcgm`: `dcgmi dmon` ends repeatedly; the log has its last "
    "output",
    "PulsedClockSkew": "`timedatectl` on both hosts, and the clock of a remote exporter: rates and ages are wrong",
    "PulsedOwnersWithoutSeries": "Raise `publish.max_owners`: some 10 series each; `/jobs` has all owners, except those"
    ' with `group="accounts"`: a GPU has more than 8',
    "PulsedConfigReloadFailed": "`pulsed check-config FILE`; the old configuration stays in force",
    "PulsedOwnersDenied": "Grant the right that the log names (chart: `rbac.create`); new pods have no workload",
    "PulsedOwnersUnknown": "The log has the reason: API server, kubelet or directory of jobs; new owners are missing",
    "PulsedGpuInputsMissing": "`pulsed doctor`: a [counters file](../deploy/dcgm-exporter/README.md), or another "
    "tool holds the profiling hardware",
    "PulsedGpuInputsInconsistent": "Stuck or frozen counters: restart the host engine and the exporter; a share cut"
    " to 1 is harmless",
}
"""The remedy of each alert that is not about a check; alerts of pods share the remedies of jobs."""


def runbook(check: str) -> str:
    """Return the paragraph of a check."""
    entry = RUNBOOK[check]
    parts = {"Verify": entry.verify, "Try": entry.attempt, "Give up": entry.give_up}
    return " ".join(f"**{title}**: {text}." for title, text in parts.items() if text) + "\n"


def commands_of(check: str) -> list[str]:
    """Return the commands that show the fault of a check of a GPU."""
    texts = re.findall(r"`([^`]+)`", RUNBOOK[check].verify)
    return [text for text in texts if text.split()[0] in _PROGRAMS]


_PROGRAMS = ("dcgmi", "dmesg", "ibstat", "journalctl", "lspci", "nvidia-imex-ctl", "nvidia-smi", "systemctl")
