"""Expressions that several panels share: what is chosen, exact averages, rankings, and zeros that are known.

No expression turns absence into 0: a 0 needs a series that was observed. Panels over all GPUs read the sums by node,
which have no label `gpu`; where GPUs are chosen by index, the series of these.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pulsed.compute.products import BY_MODEL, TemperatureLimits
from tools.dashboards.model import State

SCOPE = 'cluster=~"$cluster",job=~"$job"'
"""The daemons that were chosen."""

CHOSEN = f'{SCOPE},node=~"$node",gpu=~"$gpu"'
GPU = "node, gpu, uuid, mig_id"
"""What identifies a GPU, or a MIG instance."""

BOARD = "node, gpu, uuid"
LEGEND = "{{node}} / {{gpu}} {{mig_id}}"
RATE, RANGE = "$__rate_interval", "$__range"
KILOWATT_HOUR, HOUR = "3.6e6", "3600"

NODES = f'{CHOSEN},model=~"$model"'
"""The sums by node, as long as all GPUs of the nodes are chosen: without a label `gpu` they match `.*` alone."""

BY_INDEX = 'uuid!~"$gpu"'
"""True of every GPU if some are chosen by index, and of none if all are: only then are their series read."""

_INFO = f'pulsed_gpu_info{{{CHOSEN},model=~"$model"}}'


def _info(matchers: Sequence[str]) -> str:
    return f'pulsed_gpu_info{{{CHOSEN},model=~"$model",{BY_INDEX}}}' if BY_INDEX in matchers else _INFO


def selected(metric: str, *matchers: str, where: str = "") -> str:
    """Return the current values of the chosen GPUs; `where` is a comparison, such as ` == 1`."""
    return f"({metric}{{{','.join((CHOSEN, *matchers))}}}{where} and on (node, uuid) {_info(matchers)})"


def grown(function: str, metric: str, over: str, *matchers: str) -> str:
    """Return `rate` or `increase` of a counter of the chosen GPUs, of those that are gone, too."""
    info = f"last_over_time({_info(matchers)}[{over}])" if over == RANGE else _info(matchers)
    return f"({function}({metric}{{{','.join((CHOSEN, *matchers))}}}[{over}]) and on (node, uuid) {info})"


def total(by: str, metric: str, over: str, *matchers: str, function: str = "rate") -> str:
    """Return the sum of a counter's growth."""
    return f"sum by ({by}) {grown(function, metric, over, *matchers)}"


def average_utilization(by: str, over: str) -> str:
    """Return the exact average of the real utilization over the time in which it is known, if it ever is."""
    used, observed, unknown = (
        total(by, f"pulsed_gpu_{name}_total", over)
        for name in ("real_utilization_seconds", "observed_seconds", "real_utilization_unknown_seconds")
    )
    return f"{used} / ({observed} - {unknown} > 0.001)"


def of_nodes(name: str) -> str:
    """Return a sum by node."""
    return f"pulsed_node_{name}{{{NODES}}}"


def either(of_nodes: str, of_gpus: str) -> str:
    """Return an expression over the sums by node, and where GPUs are chosen by index, the one over these."""
    return f"({of_nodes} or {of_gpus})"


def total_of_all(by: str, name: str, over: str, *matchers: str, function: str = "rate") -> str:
    """Return the sum of the growth of a counter that nodes have, too; `name` is without prefix and `_total`."""
    of_all = f"{function}(pulsed_node_{name}_total{{{','.join((NODES, *matchers))}}}[{over}])"
    chosen = total(by, f"pulsed_gpu_{name}_total", over, BY_INDEX, *matchers, function=function)
    return either(f"sum by ({by}) ({of_all})", chosen)


def average_of_all(over: str) -> str:
    """Return the exact average of the real utilization of all chosen GPUs, as `average_utilization`."""
    names = ("real_utilization_seconds", "observed_seconds", "real_utilization_unknown_seconds")
    used, observed, unknown = (total_of_all("", name, over) for name in names)
    return f"{used} / ({observed} - {unknown} > 0.001)"


def observed(over: str = RANGE) -> str:
    """Return 0 if any chosen GPU was observed, else nothing."""
    return f"0 * {total_of_all('', 'observed_seconds', over)}"


def known_zero(expr: str, over: str = RATE) -> str:
    """Return an expression without labels, or 0 where it has no series though GPUs are observed."""
    return f"{expr} or {observed(over)}"


def or_none(expr: str, label: str) -> str:
    """Return what an expression has above 0; if that is nothing though GPUs are observed, 0 with the label `none`."""
    return f'({expr} > 0) or label_replace({observed()} unless on () ({expr} > 0), "{label}", "none", "", "")'


def beside_none(expr: str, label: str) -> str:
    """Return what an expression has above 0 beside a line at 0 with the label `none`, which GPUs are observed for."""
    return f'({expr} > 0) or label_replace({observed(RATE)}, "{label}", "none", "", "")'


def among(expr: str, ranking: str) -> str:
    """Return an expression for the GPUs of a ranking."""
    return f"{expr} and on ({GPU}) {ranking}"


def highest_ever(number: int, metric: str, divided_by: str = "") -> str:
    """Return the GPUs with the highest values of the range: the same ones at every step of it."""
    least = f" / {divided_by}{{{CHOSEN}}} @ end()" if divided_by else ""
    highest = f"max_over_time({metric}{{{CHOSEN}}}[{RANGE}] @ end()){least}"
    return f"topk({number}, {highest} and on (node, uuid) {_INFO} @ end())"


def counted_states(label: str, expr: str, states: tuple[State, ...]) -> str:
    """Return the number of GPUs by the word for their value."""
    text = f'count_values("{label}", {expr})'
    for state in states:
        text = f'label_replace({text}, "{label}", "{state.text}", "{label}", "{state.value}")'
    return text


def slowdown_of_model() -> str:
    """Return the slowdown temperature of the chosen GPUs by pulsed's table of models, for those that report none."""
    none = "|".join(pattern for pattern, limits in BY_MODEL if limits == TemperatureLimits())
    excluded = f"model!~{json.dumps(f'.*({none}).*')}"
    return " or ".join(
        f"pulsed_gpu_info{{{CHOSEN},model=~{json.dumps(f'.*{pattern}.*')},{excluded}}} * {limits.slowdown:g}"
        for pattern, limits in BY_MODEL
        if limits.slowdown is not None
    )


def state_number(metric: str, label: str, states: tuple[State, ...], selector: str, by: str) -> str:
    """Return the number of the current state per GPU, from a state set or from the series of the current state."""
    numbered = " or ".join(f'{metric}{{{label}="{state.text}",{selector}}} * {state.value}' for state in states)
    return f"sum by ({by}) ({numbered})"
