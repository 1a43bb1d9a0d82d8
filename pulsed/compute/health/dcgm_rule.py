"""Rules about what a page has beside readings: the results of DCGM's health watches, and the states of NVLinks."""

from __future__ import annotations

from dataclasses import dataclass

from pulsed.compute.health.dcgm_codes import FALSE_ALARMS, DcgmCode, dcgm_code_of
from pulsed.compute.health.inputs import GpuInputs, link_counts, links_text
from pulsed.compute.health.rule import MINUTE, RuleState
from pulsed.compute.health.rule_kinds import Level
from pulsed.compute.products import nvlink_of

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
class DetailedLevel(Level):
    """A level whose message names what decided: `measure` sets `RuleState.detail`."""

    is_pure = False

    def evaluate(self, state: RuleState, inputs: GpuInputs, now: float) -> bool:
        """Update the state for one GPU; return whether anything changed that the state of a check is made of."""
        before = (state.detail, state.ignored)
        return Level.evaluate(self, state, inputs, now) or (state.detail, state.ignored) != before


@dataclass(frozen=True, kw_only=True)
class DcgmResult(DetailedLevel):
    """The measure is the worst result of DCGM's health watches that counts.

    A result counts where the own checks of the same cause have no inputs: DCGM keeps a result for as long as the host
    engine runs, and the own checks see when the cause is over. Known false alarms do not count.
    """

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
            if known.false_alarm and not self._is_confirmed(known, state, inputs, now):
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

    def _is_confirmed(self, code: DcgmCode, state: RuleState, inputs: GpuInputs, now: float) -> bool:
        """Return whether own inputs show that a code is no false alarm."""
        if code.false_alarm == "imex_unused":
            return inputs.value("recovery_action") == IMEX_RECOVERY
        inputs.uses_nvlink = inputs.uses_nvlink or any(inputs.value(name) for name in _TRAFFIC)
        if not inputs.uses_nvlink:
            state.due = min(state.due, now + MINUTE)  # traffic is no reason for an evaluation
        return inputs.uses_nvlink


@dataclass(frozen=True, kw_only=True)
class LinksDown(DetailedLevel):
    """The measure is the number of NVLinks that are not up and should be.

    These are links that have been up, and on products whose links are all wired, the others once one is up. Links are
    off by design on boards without a bridge, in a partition of one GPU, and with MIG.
    """

    def measure(self, state: RuleState, inputs: GpuInputs, now: float) -> float | None:
        """Return the number; None where no link has been up."""
        if inputs.extras is None or inputs.extras.nvlink_states is None or inputs.value("mig_mode"):
            return None
        states, inputs.links_down = dict(inputs.extras.nvlink_states), ()
        up = {link for link, link_state in states.items() if link_state}
        inputs.links_up |= up
        if not inputs.links_up:
            return None
        wired = nvlink_of(inputs.model)
        is_short = wired is not None and bool(up) and len(up) < wired.links
        down = sorted(link for link in states if link not in up and (is_short or link in inputs.links_up))
        inputs.links_down = tuple(down)
        state.detail = f"{len(down)} of {len(states)}: {', '.join(map(str, down))}"
        return float(len(down))


@dataclass(frozen=True, kw_only=True)
class LinkOutlier(DetailedLevel):
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
