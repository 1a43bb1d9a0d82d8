"""Rules about what a page has beside readings: the results of DCGM's health watches, and the states of NVLinks."""

from __future__ import annotations

from dataclasses import dataclass

from pulsed.compute.health.dcgm_codes import FALSE_ALARMS, DcgmCode, dcgm_code_of
from pulsed.compute.health.inputs import GpuInputs, link_counts, links_text
from pulsed.compute.health.rule import RuleState
from pulsed.compute.health.rule_kinds import Level

MILD_RESULT, FAILURE = 5.0, 20.0
"""Results of DCGM's watches: of a warning whose code is only info, and of a failure."""

LEAST_LINKS = 4
"""With fewer links, one that has recovered is no outlier."""

IMEX_RECOVERY = 5.0
"""Recovery action of the driver."""

_TRAFFIC = (
    "nvlink_transmit_bytes_per_second",
    "nvlink_receive_bytes_per_second",
    "nvlink_bandwidth_bytes_per_second",
    "nvlink_transmit_bytes_total",
    "nvlink_receive_bytes_total",
)


@dataclass(frozen=True, kw_only=True)
class DcgmResult(Level):
    """The measure is the worst result of DCGM's health watches that counts.

    A result counts where the own checks of the same cause have no inputs: DCGM keeps a result for as long as the host
    engine runs, and the own checks see when the cause is over. Known false alarms do not count.
    """

    reads_checks = True

    def measure(self, state: RuleState, inputs: GpuInputs, now: float) -> float | None:
        """Return the result; None while there are none."""
        if inputs.extras is None or inputs.extras.health_watches is None:
            return None
        worst, detail, advice = 0.0, "", ""
        ignored: list[str] = []
        for (watch, code), result in inputs.extras.health_watches:
            known = dcgm_code_of(watch.upper(), code)
            if not result or any(inputs.severity_of_check(check, inputs) >= 0 for check in known.checks):
                continue
            if known.false_alarm and not _is_confirmed(known, inputs):
                ignored.append(f"{code}, {FALSE_ALARMS[known.false_alarm]}")
                continue
            if known.severity == "info" and result < FAILURE:
                result = MILD_RESULT
            if result > worst:
                worst, advice = result, known.remedy
                detail = f"{code}, {known.meaning}" if code else known.meaning
        state.detail, state.advice = detail, advice
        state.ignored = f"Ignored: {'; '.join(ignored)}" if ignored else ""
        return worst


def _is_confirmed(code: DcgmCode, inputs: GpuInputs) -> bool:
    """Return whether own inputs show that a code is no false alarm."""
    if code.false_alarm == "imex_unused":
        return inputs.value("recovery_action") == IMEX_RECOVERY
    inputs.uses_nvlink = inputs.uses_nvlink or any(inputs.value(name) for name in _TRAFFIC)
    return inputs.uses_nvlink


@dataclass(frozen=True, kw_only=True)
class LinksDown(Level):
    """The measure is the number of NVLinks that are not up and should be."""

    def measure(self, state: RuleState, inputs: GpuInputs, now: float) -> float | None:
        """Return the number; None where no link has been up."""
        if inputs.extras is None or inputs.extras.nvlink_states is None or inputs.value("mig_mode"):
            return None
        if not inputs.links_up:
            return None
        down = inputs.links_down
        state.detail = f"{len(down)} of {len(inputs.extras.nvlink_states)}: {', '.join(map(str, down))}"
        return float(len(down))


@dataclass(frozen=True, kw_only=True)
class LinkOutlier(Level):
    """The measure is the count of the only link that has any.

    Attributes:
        quantities: of which the counters of single links count.
    """

    quantities: tuple[str, ...]

    def measure(self, state: RuleState, inputs: GpuInputs, now: float) -> float | None:
        """Return the count, 0 if no link has any or several have; None where single links have no counters."""
        counts = link_counts(inputs.extras, self.quantities)
        if counts is None or len(counts) < LEAST_LINKS:
            return None
        is_outlier = counts[0][1] > 0 and not counts[1][1]
        state.detail = f"{links_text(counts)} recoveries, none on {len(counts) - 1} others" if is_outlier else ""
        return counts[0][1] if is_outlier else 0.0
