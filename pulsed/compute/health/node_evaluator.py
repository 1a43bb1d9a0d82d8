"""Health of a node, look by look: its checks with the time since which they are raised."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

from pulsed.compute.health.node_checks import NODE_CHECKS, Finding, NodeCheck, NodeView, Sleeps, sleeps_of
from pulsed.compute.health.port_history import PortHistory
from pulsed.model.health import SEVERITY, CheckState, NodeHealth


class NodeEvaluator:
    """Evaluates the checks of one node in the order of the looks at it."""

    def __init__(self) -> None:
        self._states: dict[str, CheckState] = {}
        self._raised_looks: dict[str, int] = {}
        """By check, the number of looks in a row that raise it."""
        self._sleeps: Sleeps = {}
        self._ports: defaultdict[str, PortHistory] = defaultdict(PortHistory)

    def evaluate(self, view: NodeView, disabled: Collection[str] = ()) -> NodeHealth:
        """Return the health after another look; checks that do not apply are left out.

        Args:
            view: without what follows from the looks before.
        """
        self._sleeps = sleeps_of(self._sleeps, view.facts.stuck_processes or ())
        for port in view.facts.ports or ():
            self._ports[port.name].update(port, view.facts.time)
        view = view._replace(sleeps=self._sleeps, ports=self._ports)
        states: dict[str, CheckState] = {}
        for check in NODE_CHECKS:
            if check.id not in disabled and (finding := check.find(view)) is not None:
                states[check.id] = self._concluded(check, finding, view.facts.time)
        self._states = states
        return NodeHealth(tuple(states.values()))

    def _concluded(self, check: NodeCheck, finding: Finding, time: float) -> CheckState:
        old = self._states.get(check.id) or CheckState(check.id, "unknown", time)
        is_raised = SEVERITY[finding.state] > 0
        looks = self._raised_looks[check.id] = self._raised_looks.get(check.id, 0) + 1 if is_raised else 0
        if is_raised and old.severity <= 0 and looks < check.looks:
            return old
        since = old.since if finding.state == old.state else time
        state = CheckState(check.id, finding.state, since, covered=finding.state != "unknown")
        if not is_raised:
            return state
        return replace(
            state,
            message=f"{check.title}: {finding.detail}",
            evidence=finding.evidence,
            remedy=check.remedy_at(finding.state),
        )
