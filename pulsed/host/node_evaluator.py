"""Health of a node, look by look: its checks with the time since which they are raised."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from pulsed.host.node_checks import MISSED_LOOKS, NODE_CHECKS, Finding, NodeCheck, NodeView
from pulsed.host.port_history import PortHistory
from pulsed.model.clocks import Unix
from pulsed.model.health import SEVERITY, CheckState, NodeHealth
from pulsed.model.host import StuckProcess


class ProcessLooks(NamedTuple):
    """The number of looks at which a process was stuck, and of those since the first of them at which it was not."""

    stuck: int
    missed: int


class NodeEvaluator:
    """Evaluates the checks of one node in the order of the looks at it."""

    def __init__(self) -> None:
        self._states: dict[str, CheckState] = {}
        self._raised_looks: dict[str, int] = {}
        """By check, the number of looks in a row that raise it."""
        self._processes: dict[StuckProcess, ProcessLooks] = {}
        self._ports: defaultdict[str, PortHistory] = defaultdict(PortHistory)

    def evaluate(self, view: NodeView, disabled: Collection[str] = ()) -> NodeHealth:
        """Return the health after another look; checks that do not apply are left out.

        Args:
            view: without what follows from the looks before.
        """
        self._processes = _with_look(self._processes, view.facts.stuck_processes or ())
        for port in view.facts.ports or ():
            self._ports[port.name].update(port, view.facts.time)
        stuck_looks = {process: looks.stuck for process, looks in self._processes.items()}
        view = view._replace(stuck_looks=stuck_looks, ports=self._ports)
        self._states = {
            check.id: self._state(check, finding, view.facts.time)
            for check in NODE_CHECKS
            if check.id not in disabled and (finding := check.find(view)) is not None
        }
        return NodeHealth(tuple(self._states.values()))

    def _state(self, check: NodeCheck, finding: Finding, time: Unix) -> CheckState:
        """Return the state of a check after a look."""
        old = self._states.get(check.id) or CheckState(check.id, "unknown", time)
        is_raised = SEVERITY[finding.state] > 0
        looks = self._raised_looks[check.id] = self._raised_looks.get(check.id, 0) + 1 if is_raised else 0
        if is_raised and old.severity <= 0 and looks < check.looks:
            return old
        since = old.since if finding.state == old.state else time
        state = CheckState(check.id, finding.state, since, covered=finding.state != "unknown")
        if not is_raised:
            return state
        message, remedy = f"{check.title}: {finding.detail}", check.remedy_at(finding.state)
        return replace(state, message=message, evidence=finding.evidence, remedy=remedy)


def _with_look(
    before: dict[StuckProcess, ProcessLooks], stuck: Collection[StuckProcess]
) -> dict[StuckProcess, ProcessLooks]:
    """Return the processes after another look; one that was not stuck at too many of them is dropped."""
    processes = dict.fromkeys(stuck, ProcessLooks(0, 0)) | before
    looks = {
        process: ProcessLooks(counted.stuck + (process in stuck), counted.missed + (process not in stuck))
        for process, counted in processes.items()
    }
    return {process: counted for process, counted in looks.items() if counted.missed <= MISSED_LOOKS}
