"""The keys of the health checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.settings import ComputeSettings
from pulsed.config.values import CheckIds, CheckThresholds, KernelLogPath, XidSeverities
from pulsed.errors import ConfigError
from pulsed.settings import Count, DurationOrNone, Problem, Settings, setting


@dataclass(frozen=True, slots=True)
class HealthSection(Settings):
    """Whether the GPUs are in order. HEALTH.md lists every check, with its thresholds."""

    disabled: CheckIds = setting((), "Checks that are not evaluated and not published.")
    thresholds: CheckThresholds = setting(
        {},
        "Thresholds by check, then by state, or by measure and state (HEALTH.md).",
        example={"temp_memory": {"warn": 90, "hot": 95}},
    )
    xids: XidSeverities = setting(
        {}, "Severity by XID. `ok`: count it, but do not change the state.", example={109: "warn"}
    )
    kernel_log: KernelLogPath = setting(
        "auto",
        "Read XIDs and lost GPUs from the kernel log, with their exact times. `auto`: from /dev/kmsg, if "
        "the source reads GPUs of this machine and pulsed may read it; `off`; or the path of a file, such as "
        "/var/log/kern.log, with records of /dev/kmsg, lines of dmesg, of syslog, or of `journalctl -k` with -o short, "
        "short-iso or export. Only messages of the kernel count. In a file that other programs log to, everyone who "
        "may log can forge them. Time stamps without a zone are local time (TZ).",
    )
    forget_after: DurationOrNone = setting(
        ComputeSettings().forget_after,
        "Forget a GPU that has been absent for this time: its health, counters and history. 0: never. "
        "`pulsed health --forget GPU` forgets it at once.",
    )
    pcie_width_max: Count = setting(
        0, "PCIe lanes that the riser provides; fewer are a fault. 0: as the GPU reports.", example=8
    )

    def problems(self) -> Iterator[Problem]:
        """Find checks, thresholds and severities that do not exist."""
        tries: dict[str, Callable[[], HealthSettings]] = {
            "disabled": lambda: HealthSettings(disabled=frozenset(self.disabled)),
            "thresholds": lambda: HealthSettings(self.thresholds),
        }
        for key, attempt in tries.items():
            try:
                attempt()
            except ConfigError as error:  # noqa: PERF203 - each key has its own
                yield key, f"cannot be used: {error}"

    def settings(self) -> HealthSettings:
        """Return the settings of Compute."""
        return HealthSettings(self.thresholds, frozenset(self.disabled), self.xids, self.pcie_width_max)
