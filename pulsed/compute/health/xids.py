"""The XID codes: what they mean, how severe they are, and what to do.

Sources: NVIDIA's XID catalogue (2025-10) decides the action, and with it the severity: `crit` for a reset, a restart of
the node or a hardware check; `warn` where a restart of the program is enough but hardware may be involved, and for
unused codes; `info` for codes that can be ignored according to NVIDIA, and for program bugs. 44, 63, 92, 121, 156 and
157 are `warn` although they need no immediate action: they announce failures. Fleets disagree about 109, 94, 160 and
165; the configuration can change them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, cast

XidSeverity = Literal["ok", "info", "warn", "crit"]
"""`ok` is for the configuration: the code is counted and changes no state."""

Scope = Literal["app", "driver", "firmware", "hardware", "memory", "nvlink", "pcie"]
Action = Literal["none", "ignore", "restart_app", "reset_gpu", "reboot_node", "check_hardware"]

ADVICE: Mapping[Action, str] = {
    "none": "read the kernel log at that time, and report the code if it returns",
    "ignore": "no action is needed now",
    "restart_app": "restart the program that ran on this GPU",
    "reset_gpu": "stop the jobs on this GPU and reset it",
    "reboot_node": "drain the node and restart it",
    "check_hardware": "take the GPU out of service and check the hardware",
}
"""The remedy for an action, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Xid:
    """An error code of NVIDIA's driver: its meaning, severity, affected part, and the action that NVIDIA recommends."""

    code: int
    severity: XidSeverity
    scope: Scope
    action: Action
    description: str


RESET_LATER = "reset the GPU when the current jobs finish"
"""The remedy where a reset can wait."""


FOLLOWER = 45
"""Follows other codes and the end of processes: it has no meaning alone and replaces no other code."""

CORROBORABLE = frozenset({144, 145, 146, 149})
"""Codes that are critical once another input confirms them: their severity depends on sub-codes in the kernel log."""

# codes, severity, scope, action, description; # is the number of the unit, counted from 0
_TABLE = """\
1 warn app restart_app legacy FIFO method fault: malformed command stream
2 warn app restart_app legacy FIFO software-method fault: malformed command stream
3 warn app restart_app legacy FIFO unknown method: malformed command stream
4 warn app restart_app legacy FIFO channel-busy fault: malformed command stream
5 warn driver none legacy FIFO run-out overflow
6 warn app restart_app legacy FIFO parse fault: malformed command stream
7 warn app restart_app legacy FIFO bad page-table address: malformed command stream
8 warn app restart_app channel idle timeout: the GPU stopped making progress for one channel
9 warn driver reboot_node graphics instance programming fault in the driver
10 info driver none legacy single-step trap
11 warn app restart_app command stream names missing hardware (bad push buffer)
12 warn driver reboot_node software-method fault while the driver handled a GPU exception
13 info app restart_app SM or graphics exception: bad address or instruction; application bug unless it repeats on a TPC
14 info driver ignore synthetic test error
15 info driver none display scanline timeout
16 warn driver reboot_node display vblank callback timeout: display engine hung
17 info driver none internal parameter error
18 warn pcie reboot_node PCI bus mastering found disabled
19 warn driver reboot_node display engine missed a notifier
20 warn app restart_app MPEG engine received a bad command stream
21 warn app restart_app motion-estimation engine received a bad command stream
22 warn app restart_app video-processor engine received a bad command stream
23 info driver none resource-manager logging marker
24 warn app restart_app graphics semaphore wait timed out
25 warn app restart_app illegal notifier in the command stream
26 warn memory reboot_node framebuffer state timeout
27 warn driver reboot_node video processor exception
28 warn driver reboot_node second video processor exception
29 warn driver reboot_node bitstream processor exception
30 warn driver reboot_node semaphore or address access fault
31 info app restart_app MMU fault: unmapped or protected address; an application bug unless correct programs do it, too
32 warn app restart_app PBDMA fault: corrupted or invalid push buffer, from software or from a bad PCIe transfer
33 warn firmware reboot_node security engine fault
34 warn driver reboot_node MSVLD video engine exception
35 warn driver reboot_node MSPDEC video engine exception
36 warn driver reboot_node MSPPP video engine exception
37 info firmware ignore context-switch firmware got a method it does not implement
38 info firmware ignore context-switch firmware watchdog expired; follow any other XID next to it
39-41,70-72,75-77,85,126-135 warn driver restart_app copy engine # exception
42 warn driver reboot_node VIC video compositor exception
43 info app restart_app channel was reset after a user fault; the GPU itself stays usable
44 warn driver ignore graphics fault while switching contexts
45 info app ignore channel torn down after an earlier error or at the end of a process; a follow-up code
46 crit hardware reset_gpu GPU timeout: an engine stopped responding
47 warn driver reboot_node encoder 0 exception
48 crit memory reset_gpu uncorrectable (double-bit) ECC error; reset, then check remap state and SRAM threshold
49 info driver none quiet-mode level set from registry
50 info driver none quiet-mode level change after a channel error
51 info driver none quiet-mode stress test failure
52 info driver none quiet-mode level change by temperature
53 info driver none quiet-mode clocks reduced by temperature
54 crit hardware check_hardware auxiliary power lead missing or out of range at the board
55 info driver none quiet-mode temperature read failure
56 info driver none display channel exception
57 warn memory check_hardware framebuffer link training failed: memory interface could not be programmed
58 warn memory check_hardware framebuffer interface unstable
59 warn firmware reset_gpu power-management controller error, old drivers
60 warn driver restart_app SEC2 / video processor exception
61 warn firmware reset_gpu power-management controller breakpoint
62 crit firmware reset_gpu power-management controller (PMU) halted; 45 often follows and hides it
63 warn memory reset_gpu row remap or page retirement was recorded; repair takes effect at the next reset
64 crit memory check_hardware row remap or page retirement not recorded: no spare rows left or InfoROM write failed
65 warn driver restart_app encoder 1 exception
66 info driver ignore driver made a forbidden register access
67 info driver ignore driver register verification violation
68,83-84,88-89,96-98 warn app restart_app video decoder # exception
69 warn app restart_app graphics class error: wrong method for the object class
73 warn driver restart_app encoder 2 exception
74 crit nvlink reset_gpu NVLink hardware error (up to Hopper); the link may retrain or drop; read its state and counters
78 warn driver none vGPU failed to start: host and guest driver or licence mismatch
79 crit pcie reboot_node GPU fell off the PCIe bus: no answer to reads
80 warn pcie restart_app push buffer checksum mismatch: data corrupted on its way to the GPU
81 warn hardware check_hardware legacy VGA subsystem error
82,99-105 warn app restart_app JPEG engine # exception
86,139 warn app restart_app optical-flow engine # exception
87 info driver none driver telemetry report marker
90 info memory none L2 cache (LTC) marker
91 info driver none reserved code
92 warn memory ignore rate of corrected single-bit ECC errors is high; hardware fixes them, watch remaps
93 info firmware ignore InfoROM erase budget passed
94 warn memory restart_app uncorrectable memory error contained to one process; restart it, reset when convenient
95 crit memory reset_gpu uncorrectable memory error not contained: every process on the GPU is affected
106 info firmware ignore out-of-band test message
107 info firmware ignore silent out-of-band test message
108 info nvlink ignore NVLink remote address translation failed; handled like 137
109 crit driver reset_gpu context-switch timeout: work did not leave the engine
110 crit firmware reset_gpu security fault
111 info driver none display bundle error
112 info driver none display supervisor error
113 info driver none DisplayPort link training failure
114 info driver none display pipeline underflow
115 info driver none display core channel error
116 info driver none display window channel error
117 info driver none display cursor channel error
118 info driver none display pixel pipeline error
119 crit firmware reset_gpu GSP firmware did not answer a driver call in time
120 crit firmware reset_gpu GSP firmware crashed or reported an error
121 warn nvlink ignore chip-to-chip (CPU-GPU) link corrected error
122 warn firmware check_hardware SPI flash read through PMU failed
123 warn firmware check_hardware SPI flash write through PMU failed
124 warn firmware check_hardware SPI flash erase through PMU failed
125 warn firmware check_hardware InfoROM file system error
136 crit nvlink reset_gpu NVLink training failed; check cable or signal integrity
137 info nvlink ignore NVLink access denied: peer fault or app addressing memory of a failed peer
138 info driver none deep-learning accelerator error
140 crit memory reset_gpu ECC error that escaped recovery
141 info app ignore CUDA fast-path submission error
142 warn driver none encoder 3 exception
143 crit hardware reset_gpu GPU failed to initialise
144 warn nvlink reset_gpu NVLink5 SAW unit error; severity depends on the sub-code in the kernel log
145 warn nvlink reset_gpu NVLink5 RLW unit error; severity depends on the sub-code in the kernel log
146 warn nvlink reset_gpu NVLink5 TLW unit error; severity depends on the sub-code in the kernel log
147 info nvlink ignore NVLink5 TREX unit error; known sub-codes are harmless
148 info nvlink ignore NVLink5 NVLPW control unit error; known sub-codes are harmless
149 warn nvlink reset_gpu NVLink5 NETIR (link event, link down class) unit error; severity depends on the sub-code
150 crit nvlink reset_gpu NVLink5 MSE management unit error; all known sub-codes need a reset
151 crit driver reboot_node confidential-computing key rotation failed; restart the guest
152 info driver ignore deep-learning accelerator SMMU error
153 info driver ignore deep-learning accelerator timeout
154 warn driver none recommended recovery action changed; read the new action (field 1523) and the XID before it
155 crit nvlink reset_gpu NVLink software-defined error
156 warn hardware reset_gpu a faulty on-chip resource was retired; needs a reset to take effect
157 warn hardware check_hardware a faulty on-chip resource could not be retired
158 crit hardware reset_gpu GPU fatal timeout
159 warn driver none coherent-interface non-data error; look for a companion XID, report if alone
160 info driver ignore a channel was retired after faults
161 info driver ignore a channel could not be retired
162 info hardware none power-smoothing circuit engaged again
163 warn hardware check_hardware power-smoothing circuit disengaged
164 warn hardware check_hardware power-smoothing circuit near end of life
165 warn hardware check_hardware power-smoothing circuit life used up
166 warn nvlink reset_gpu NVLink traffic before encryption was set up (confidential mode)
167 crit pcie reset_gpu PCIe fatal timeout
168 warn memory check_hardware GPU runs with less memory: errors in the write-protected region
169 crit firmware reset_gpu SEC2 micro-controller halted
170 warn nvlink none unexpected NVLink interrupt in confidential mode
171 crit memory reset_gpu companion of 48: the uncorrectable error was in DRAM
172 crit memory reset_gpu companion of 48: the uncorrectable error was in SRAM; check the SRAM threshold flag
173 crit nvlink reset_gpu chip-to-chip link failed fatally
185 info memory none memory sparing event
"""


def _parse(row: str) -> Iterator[Xid]:
    codes, severity, scope, action, description = row.split(" ", 4)
    ranges = [[int(code) for code in part.split("-")] for part in codes.split(",")]
    for number, code in enumerate(code for part in ranges for code in range(part[0], part[-1] + 1)):
        text = description.replace("#", str(number))
        yield Xid(code, cast(XidSeverity, severity), cast(Scope, scope), cast(Action, action), text)


XIDS: Mapping[int, Xid] = dict(sorted((xid.code, xid) for row in _TABLE.splitlines() for xid in _parse(row)))
"""By code."""


def xid_of(code: int) -> Xid:
    """Return what is known of a code; an unknown one is a warning (as in NVSentinel)."""
    return XIDS.get(code) or Xid(code, "warn", "driver", "none", "unknown XID, contact NVIDIA support")


def advice(severity: str, action: Action) -> str:
    """Return the remedy for an action, as the end of a sentence: below `crit` a reset can wait for the jobs."""
    return RESET_LATER if action == "reset_gpu" and severity != "crit" else ADVICE[action]
