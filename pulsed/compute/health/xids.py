"""The XID codes: what they mean, how bad they are, and what to do. One row per code; a new code is one row.

Sources: NVIDIA's XID catalogue (2025-10) decides the action, and with it the severity: `crit` for a reset, a restart of
the node or a look at the hardware; `warn` where a restart of the program is enough but hardware may be involved, and
for unused codes; `info` for what NVIDIA says to ignore, and for bugs of programs. 44, 63, 92, 121, 156 and 157 are
`warn` although nothing is asked for at once: they foretell trouble. Where fleets disagree (109, 94, 160, 165), the
configuration can say otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

XidSeverity = Literal["ok", "info", "warn", "crit"]
"""`ok` is for the configuration: count such a code, but let it change no state."""

Scope = Literal["app", "driver", "firmware", "hardware", "memory", "nvlink", "pcie"]
Action = Literal["none", "ignore", "restart_app", "reset_gpu", "reboot_node", "check_hardware"]

ADVICE: Mapping[str, str] = {
    "none": "read the kernel log at that time, and report the code if it returns",
    "ignore": "no action is needed now",
    "restart_app": "restart the program that ran on this GPU",
    "reset_gpu": "stop the jobs on this GPU and reset it",
    "reboot_node": "drain the node and restart it",
    "check_hardware": "take the GPU out of service and check the hardware",
}
"""What an action asks of a person, to end a sentence with."""


@dataclass(frozen=True, slots=True)
class Xid:
    """A code of NVIDIA's driver.

    Attributes:
        code: the number.
        description: what happened, in a few words.
        severity: how bad it is.
        scope: what is concerned.
        action: what NVIDIA asks for.
        legacy: whether GPUs since Ampere do not emit it.
        corroborable: whether it is critical as soon as something else says so too: its own sub-codes, which only the
            kernel log has, differ much.
    """

    code: int
    description: str
    severity: XidSeverity
    scope: Scope
    action: Action
    legacy: bool = False
    corroborable: bool = False


FOLLOWER = 45
"""Comes after other codes and at the end of processes: it says nothing alone and hides nothing."""

_TABLE: tuple[Xid, ...] = (
    Xid(1, "legacy FIFO method fault: malformed command stream", "warn", "app", "restart_app", legacy=True),
    Xid(2, "legacy FIFO software-method fault: malformed command stream", "warn", "app", "restart_app", legacy=True),
    Xid(3, "legacy FIFO unknown method: malformed command stream", "warn", "app", "restart_app", legacy=True),
    Xid(4, "legacy FIFO channel-busy fault: malformed command stream", "warn", "app", "restart_app", legacy=True),
    Xid(5, "legacy FIFO run-out overflow", "warn", "driver", "none", legacy=True),
    Xid(6, "legacy FIFO parse fault: malformed command stream", "warn", "app", "restart_app", legacy=True),
    Xid(7, "legacy FIFO bad page-table address: malformed command stream", "warn", "app", "restart_app", legacy=True),
    Xid(8, "channel idle timeout: the GPU stopped making progress for one channel", "warn", "app", "restart_app"),
    Xid(9, "graphics instance programming fault in the driver", "warn", "driver", "reboot_node", legacy=True),
    Xid(10, "legacy single-step trap", "info", "driver", "none", legacy=True),
    Xid(11, "command stream names missing hardware (bad push buffer)", "warn", "app", "restart_app"),
    Xid(
        12,
        "software-method fault while the driver handled a GPU exception",
        "warn",
        "driver",
        "reboot_node",
        legacy=True,
    ),
    Xid(
        13,
        "SM or graphics exception: bad address or instruction; an application bug unless it repeats on one TPC",
        "info",
        "app",
        "restart_app",
    ),
    Xid(14, "synthetic test error", "info", "driver", "ignore", legacy=True),
    Xid(15, "display scanline timeout", "info", "driver", "none", legacy=True),
    Xid(16, "display vblank callback timeout: display engine hung", "warn", "driver", "reboot_node", legacy=True),
    Xid(17, "internal parameter error", "info", "driver", "none", legacy=True),
    Xid(18, "PCI bus mastering found disabled", "warn", "pcie", "reboot_node", legacy=True),
    Xid(19, "display engine missed a notifier", "warn", "driver", "reboot_node", legacy=True),
    Xid(20, "MPEG engine received a bad command stream", "warn", "app", "restart_app", legacy=True),
    Xid(21, "motion-estimation engine received a bad command stream", "warn", "app", "restart_app", legacy=True),
    Xid(22, "video-processor engine received a bad command stream", "warn", "app", "restart_app", legacy=True),
    Xid(23, "resource-manager logging marker", "info", "driver", "none", legacy=True),
    Xid(24, "graphics semaphore wait timed out", "warn", "app", "restart_app", legacy=True),
    Xid(25, "illegal notifier in the command stream", "warn", "app", "restart_app"),
    Xid(26, "framebuffer state timeout", "warn", "memory", "reboot_node", legacy=True),
    Xid(27, "video processor exception", "warn", "driver", "reboot_node", legacy=True),
    Xid(28, "second video processor exception", "warn", "driver", "reboot_node", legacy=True),
    Xid(29, "bitstream processor exception", "warn", "driver", "reboot_node", legacy=True),
    Xid(30, "semaphore or address access fault", "warn", "driver", "reboot_node", legacy=True),
    Xid(
        31,
        "MMU fault: access to an unmapped or protected address; an application bug unless correct programs do it, too",
        "info",
        "app",
        "restart_app",
    ),
    Xid(
        32,
        "PBDMA fault: corrupted or invalid push buffer, from software or from a bad PCIe transfer",
        "warn",
        "app",
        "restart_app",
    ),
    Xid(33, "security engine fault", "warn", "firmware", "reboot_node", legacy=True),
    Xid(34, "MSVLD video engine exception", "warn", "driver", "reboot_node", legacy=True),
    Xid(35, "MSPDEC video engine exception", "warn", "driver", "reboot_node", legacy=True),
    Xid(36, "MSPPP video engine exception", "warn", "driver", "reboot_node", legacy=True),
    Xid(37, "context-switch firmware got a method it does not implement", "info", "firmware", "ignore"),
    Xid(38, "context-switch firmware watchdog expired; follow any other XID next to it", "info", "firmware", "ignore"),
    Xid(39, "copy engine 0 exception", "warn", "driver", "restart_app"),
    Xid(40, "copy engine 1 exception", "warn", "driver", "restart_app"),
    Xid(41, "copy engine 2 exception", "warn", "driver", "restart_app"),
    Xid(42, "VIC video compositor exception", "warn", "driver", "reboot_node", legacy=True),
    Xid(43, "channel was reset after a user fault; the GPU itself stays usable", "info", "app", "restart_app"),
    Xid(44, "graphics fault while switching contexts", "warn", "driver", "ignore"),
    Xid(
        45,
        "channel torn down after an earlier error or at the end of a process; a follow-up code",
        "info",
        "app",
        "ignore",
    ),
    Xid(46, "GPU timeout: an engine stopped responding", "crit", "hardware", "reset_gpu"),
    Xid(47, "encoder 0 exception", "warn", "driver", "reboot_node", legacy=True),
    Xid(
        48,
        "uncorrectable (double-bit) ECC error; reset, then check remap state and SRAM threshold",
        "crit",
        "memory",
        "reset_gpu",
    ),
    Xid(49, "quiet-mode level set from registry", "info", "driver", "none", legacy=True),
    Xid(50, "quiet-mode level change after a channel error", "info", "driver", "none", legacy=True),
    Xid(51, "quiet-mode stress test failure", "info", "driver", "none", legacy=True),
    Xid(52, "quiet-mode level change by temperature", "info", "driver", "none", legacy=True),
    Xid(53, "quiet-mode clocks reduced by temperature", "info", "driver", "none", legacy=True),
    Xid(54, "auxiliary power lead missing or out of range at the board", "crit", "hardware", "check_hardware"),
    Xid(55, "quiet-mode temperature read failure", "info", "driver", "none", legacy=True),
    Xid(56, "display channel exception", "info", "driver", "none", legacy=True),
    Xid(
        57,
        "framebuffer link training failed: memory interface could not be programmed",
        "warn",
        "memory",
        "check_hardware",
        legacy=True,
    ),
    Xid(58, "framebuffer interface unstable", "warn", "memory", "check_hardware", legacy=True),
    Xid(59, "power-management controller error, old drivers", "warn", "firmware", "reset_gpu", legacy=True),
    Xid(60, "SEC2 / video processor exception", "warn", "driver", "restart_app"),
    Xid(61, "power-management controller breakpoint", "warn", "firmware", "reset_gpu", legacy=True),
    Xid(62, "power-management controller (PMU) halted; 45 often follows and hides it", "crit", "firmware", "reset_gpu"),
    Xid(
        63,
        "row remap or page retirement was recorded; repair takes effect at the next reset",
        "warn",
        "memory",
        "reset_gpu",
    ),
    Xid(
        64,
        "row remap or page retirement could not be recorded: spare rows gone or InfoROM write failed",
        "crit",
        "memory",
        "check_hardware",
    ),
    Xid(65, "encoder 1 exception", "warn", "driver", "restart_app", legacy=True),
    Xid(66, "driver made a forbidden register access", "info", "driver", "ignore"),
    Xid(67, "driver register verification violation", "info", "driver", "ignore"),
    Xid(68, "video decoder 0 exception", "warn", "app", "restart_app"),
    Xid(69, "graphics class error: wrong method for the object class", "warn", "app", "restart_app"),
    Xid(70, "copy engine 3 exception", "warn", "driver", "restart_app"),
    Xid(71, "copy engine 4 exception", "warn", "driver", "restart_app"),
    Xid(72, "copy engine 5 exception", "warn", "driver", "restart_app"),
    Xid(73, "encoder 2 exception", "warn", "driver", "restart_app", legacy=True),
    Xid(
        74,
        "NVLink hardware error (up to Hopper); the link may retrain or drop; read link state and counters",
        "crit",
        "nvlink",
        "reset_gpu",
    ),
    Xid(75, "copy engine 6 exception", "warn", "driver", "restart_app"),
    Xid(76, "copy engine 7 exception", "warn", "driver", "restart_app"),
    Xid(77, "copy engine 8 exception", "warn", "driver", "restart_app"),
    Xid(78, "vGPU failed to start: host and guest driver or licence mismatch", "warn", "driver", "none"),
    Xid(79, "GPU fell off the PCIe bus: no answer to reads", "crit", "pcie", "reboot_node"),
    Xid(80, "push buffer checksum mismatch: data corrupted on its way to the GPU", "warn", "pcie", "restart_app"),
    Xid(81, "legacy VGA subsystem error", "warn", "hardware", "check_hardware", legacy=True),
    Xid(82, "JPEG engine 0 exception", "warn", "app", "restart_app"),
    Xid(83, "video decoder 1 exception", "warn", "app", "restart_app"),
    Xid(84, "video decoder 2 exception", "warn", "app", "restart_app"),
    Xid(85, "copy engine 9 exception", "warn", "driver", "restart_app"),
    Xid(86, "optical-flow engine 0 exception", "warn", "app", "restart_app"),
    Xid(87, "driver telemetry report marker", "info", "driver", "none", legacy=True),
    Xid(88, "video decoder 3 exception", "warn", "app", "restart_app"),
    Xid(89, "video decoder 4 exception", "warn", "app", "restart_app"),
    Xid(90, "L2 cache (LTC) marker", "info", "memory", "none", legacy=True),
    Xid(91, "reserved code", "info", "driver", "none", legacy=True),
    Xid(
        92,
        "rate of corrected single-bit ECC errors is high; hardware fixes them, watch remaps",
        "warn",
        "memory",
        "ignore",
    ),
    Xid(93, "InfoROM erase budget passed", "info", "firmware", "ignore"),
    Xid(
        94,
        "uncorrectable memory error contained to one process; restart that process, reset when convenient",
        "warn",
        "memory",
        "restart_app",
    ),
    Xid(
        95,
        "uncorrectable memory error not contained: every process on the GPU is affected",
        "crit",
        "memory",
        "reset_gpu",
    ),
    Xid(96, "video decoder 5 exception", "warn", "app", "restart_app"),
    Xid(97, "video decoder 6 exception", "warn", "app", "restart_app"),
    Xid(98, "video decoder 7 exception", "warn", "app", "restart_app"),
    Xid(99, "JPEG engine 1 exception", "warn", "app", "restart_app"),
    Xid(100, "JPEG engine 2 exception", "warn", "app", "restart_app"),
    Xid(101, "JPEG engine 3 exception", "warn", "app", "restart_app"),
    Xid(102, "JPEG engine 4 exception", "warn", "app", "restart_app"),
    Xid(103, "JPEG engine 5 exception", "warn", "app", "restart_app"),
    Xid(104, "JPEG engine 6 exception", "warn", "app", "restart_app"),
    Xid(105, "JPEG engine 7 exception", "warn", "app", "restart_app"),
    Xid(106, "out-of-band test message", "info", "firmware", "ignore"),
    Xid(107, "silent out-of-band test message", "info", "firmware", "ignore"),
    Xid(108, "NVLink remote address translation failed; handled like 137", "info", "nvlink", "ignore"),
    Xid(109, "context-switch timeout: work did not leave the engine", "crit", "driver", "reset_gpu"),
    Xid(110, "security fault", "crit", "firmware", "reset_gpu"),
    Xid(111, "display bundle error", "info", "driver", "none", legacy=True),
    Xid(112, "display supervisor error", "info", "driver", "none", legacy=True),
    Xid(113, "DisplayPort link training failure", "info", "driver", "none", legacy=True),
    Xid(114, "display pipeline underflow", "info", "driver", "none", legacy=True),
    Xid(115, "display core channel error", "info", "driver", "none", legacy=True),
    Xid(116, "display window channel error", "info", "driver", "none", legacy=True),
    Xid(117, "display cursor channel error", "info", "driver", "none", legacy=True),
    Xid(118, "display pixel pipeline error", "info", "driver", "none", legacy=True),
    Xid(119, "GSP firmware did not answer a driver call in time", "crit", "firmware", "reset_gpu"),
    Xid(120, "GSP firmware crashed or reported an error", "crit", "firmware", "reset_gpu"),
    Xid(121, "chip-to-chip (CPU-GPU) link corrected error", "warn", "nvlink", "ignore"),
    Xid(122, "SPI flash read through PMU failed", "warn", "firmware", "check_hardware", legacy=True),
    Xid(123, "SPI flash write through PMU failed", "warn", "firmware", "check_hardware", legacy=True),
    Xid(124, "SPI flash erase through PMU failed", "warn", "firmware", "check_hardware", legacy=True),
    Xid(125, "InfoROM file system error", "warn", "firmware", "check_hardware", legacy=True),
    Xid(126, "copy engine 10 exception", "warn", "driver", "restart_app"),
    Xid(127, "copy engine 11 exception", "warn", "driver", "restart_app"),
    Xid(128, "copy engine 12 exception", "warn", "driver", "restart_app"),
    Xid(129, "copy engine 13 exception", "warn", "driver", "restart_app"),
    Xid(130, "copy engine 14 exception", "warn", "driver", "restart_app"),
    Xid(131, "copy engine 15 exception", "warn", "driver", "restart_app"),
    Xid(132, "copy engine 16 exception", "warn", "driver", "restart_app"),
    Xid(133, "copy engine 17 exception", "warn", "driver", "restart_app"),
    Xid(134, "copy engine 18 exception", "warn", "driver", "restart_app"),
    Xid(135, "copy engine 19 exception", "warn", "driver", "restart_app"),
    Xid(136, "NVLink training failed; check cable or signal integrity", "crit", "nvlink", "reset_gpu"),
    Xid(137, "NVLink access denied: peer fault or app addressing memory of a failed peer", "info", "nvlink", "ignore"),
    Xid(138, "deep-learning accelerator error", "info", "driver", "none", legacy=True),
    Xid(139, "optical-flow engine 1 exception", "warn", "app", "restart_app"),
    Xid(140, "ECC error that escaped recovery", "crit", "memory", "reset_gpu"),
    Xid(141, "CUDA fast-path submission error", "info", "app", "ignore"),
    Xid(142, "encoder 3 exception", "warn", "driver", "none"),
    Xid(143, "GPU failed to initialise", "crit", "hardware", "reset_gpu"),
    Xid(
        144,
        "NVLink5 SAW unit error; severity depends on the sub-code in the kernel log",
        "warn",
        "nvlink",
        "reset_gpu",
        corroborable=True,
    ),
    Xid(
        145,
        "NVLink5 RLW unit error; severity depends on the sub-code in the kernel log",
        "warn",
        "nvlink",
        "reset_gpu",
        corroborable=True,
    ),
    Xid(
        146,
        "NVLink5 TLW unit error; severity depends on the sub-code in the kernel log",
        "warn",
        "nvlink",
        "reset_gpu",
        corroborable=True,
    ),
    Xid(147, "NVLink5 TREX unit error; known sub-codes are harmless", "info", "nvlink", "ignore"),
    Xid(148, "NVLink5 NVLPW control unit error; known sub-codes are harmless", "info", "nvlink", "ignore"),
    Xid(
        149,
        "NVLink5 NETIR (link event, link down class) unit error; severity depends on the sub-code in the kernel log",
        "warn",
        "nvlink",
        "reset_gpu",
        corroborable=True,
    ),
    Xid(
        150,
        "NVLink5 MSE management unit error; all known sub-codes need a reset",
        "crit",
        "nvlink",
        "reset_gpu",
    ),
    Xid(151, "confidential-computing key rotation failed; restart the guest", "crit", "driver", "reboot_node"),
    Xid(152, "deep-learning accelerator SMMU error", "info", "driver", "ignore"),
    Xid(153, "deep-learning accelerator timeout", "info", "driver", "ignore"),
    Xid(
        154,
        "recommended recovery action changed; read the new action (field 1523) and the XID before it",
        "warn",
        "driver",
        "none",
    ),
    Xid(155, "NVLink software-defined error", "crit", "nvlink", "reset_gpu"),
    Xid(156, "a faulty on-chip resource was retired; needs a reset to take effect", "warn", "hardware", "reset_gpu"),
    Xid(157, "a faulty on-chip resource could not be retired", "warn", "hardware", "check_hardware"),
    Xid(158, "GPU fatal timeout", "crit", "hardware", "reset_gpu"),
    Xid(159, "coherent-interface non-data error; look for a companion XID, report if alone", "warn", "driver", "none"),
    Xid(160, "a channel was retired after faults", "info", "driver", "ignore"),
    Xid(161, "a channel could not be retired", "info", "driver", "ignore"),
    Xid(162, "power-smoothing circuit engaged again", "info", "hardware", "none"),
    Xid(163, "power-smoothing circuit disengaged", "warn", "hardware", "check_hardware"),
    Xid(164, "power-smoothing circuit near end of life", "warn", "hardware", "check_hardware"),
    Xid(165, "power-smoothing circuit life used up", "warn", "hardware", "check_hardware"),
    Xid(166, "NVLink traffic before encryption was set up (confidential mode)", "warn", "nvlink", "reset_gpu"),
    Xid(167, "PCIe fatal timeout", "crit", "pcie", "reset_gpu"),
    Xid(168, "GPU runs with less memory: errors in the write-protected region", "warn", "memory", "check_hardware"),
    Xid(169, "SEC2 micro-controller halted", "crit", "firmware", "reset_gpu"),
    Xid(170, "unexpected NVLink interrupt in confidential mode", "warn", "nvlink", "none"),
    Xid(171, "companion of 48: the uncorrectable error was in DRAM", "crit", "memory", "reset_gpu"),
    Xid(
        172,
        "companion of 48: the uncorrectable error was in SRAM; check the SRAM threshold flag",
        "crit",
        "memory",
        "reset_gpu",
    ),
    Xid(173, "chip-to-chip link failed fatally", "crit", "nvlink", "reset_gpu"),
    Xid(185, "memory sparing event", "info", "memory", "none"),
)

XIDS: Mapping[int, Xid] = {xid.code: xid for xid in _TABLE}
"""By code."""


def xid_of(code: int) -> Xid:
    """Give what is known of a code; an unknown one is a warning (as NVSentinel has it)."""
    return XIDS.get(code) or Xid(code, "unknown XID, ask NVIDIA's support about it", "warn", "driver", "none")
