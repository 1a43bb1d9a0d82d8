"""Expressions that several panels share: what is chosen, exact averages, rankings, and zeros that are known.

No expression turns absence into 0: a 0 needs a series that was observed. Panels over time of all GPUs read what rules
have recorded by node; without such rules, or where GPUs are chosen by index, model or job, the series of GPUs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pulsed.compute.products import BY_MODEL, TemperatureLimits
from pulsed.present.promql.rule_set import CLASS_RATES, RATES, LevelRate, of_node
from tools.dashboards.model import Found, State

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
"""What rules record by node, as long as all GPUs, models and jobs are chosen: without these labels it matches `.*`
alone."""

UNRECORDED = 'recorded=~"$recorded"'
"""True of every series of a GPU, but of none if rules have recorded what is chosen for the whole range."""

RECORDED = Found(
    "recorded",
    f"{of_node('gpus', 'count')}{{{NODES}}} offset {RANGE}",
    "__name__",
    False,
    "Whether rules record what is chosen.",
)

_OTHER_MODELS = f'pulsed_gpu_info{{{CHOSEN},model!~"$model"}}'
_RATES: Mapping[str, LevelRate] = {rate.metric: rate for rate in (*RATES, *CLASS_RATES)}


def selected(metric: str, *matchers: str, where: str = "") -> str:
    """Return the current values of the chosen GPUs; `where` is a comparison, such as ` == 1`."""
    return f"({metric}{{{','.join((CHOSEN, *matchers))}}}{where} unless on (node, uuid) {_OTHER_MODELS})"


def grown(function: str, metric: str, over: str, *matchers: str) -> str:
    """Return a function over time, such as `rate`, of a series of the chosen GPUs, of those that are gone, too."""
    others = f"last_over_time({_OTHER_MODELS}[{over}])" if over == RANGE else _OTHER_MODELS
    return f"({function}({metric}{{{','.join((CHOSEN, *matchers))}}}[{over}]) unless on (node, uuid) {others})"


def total(by: str, metric: str, over: str, *matchers: str, function: str = "rate") -> str:
    """Return the sum of a counter's growth."""
    return f"sum by ({by}) {grown(function, metric, over, *matchers)}"


def average_utilization(by: str, over: str, *matchers: str) -> str:
    """Return the exact average of the real utilization over the time in which it is known, if it ever is."""
    used, observed, unknown = (
        total(by, f"pulsed_gpu_{name}_total", over, *matchers)
        for name in ("real_utilization_seconds", "observed_seconds", "real_utilization_unknown_seconds")
    )
    return f"{used} / ({observed} - {unknown} > 0.001)"


def by_node(metric: str, operation: str) -> str:
    """Return what rules record by node."""
    return f"{of_node(metric, operation)}{{{NODES}}}"


def either(recorded: str, of_gpus: str) -> str:
    """Return an expression over what is recorded, or if there is none, the one over the series of GPUs."""
    return f"({recorded} or {of_gpus})"


def total_of_all(by: str, metric: str, over: str, *matchers: str, function: str = "rate") -> str:
    """Return the sum of the growth of a counter that is recorded, by its recorded name.

    An increase is recorded as a rate, of which there is a value a minute.
    """
    rate = _RATES[metric]
    recorded = f"{of_node(metric)}{{{','.join((NODES, *matchers))}}}"
    if function == "rate":
        summed = f"sum by ({by}) (avg_over_time({recorded}[{over}]))"
    else:
        summed = f"60 * sum by ({by}) (sum_over_time({recorded}[{over}:1m]))"
    selects = (UNRECORDED, *([rate.selects] if rate.selects else ()), *matchers)
    return either(summed, total(by, f"pulsed_gpu_{rate.counter}_total", over, *selects, function=function))


def average_of_all(over: str) -> str:
    """Return the exact average of the real utilization of all chosen GPUs, as `average_utilization`.

    It is a ratio of increases: an average of rates would count a node that is there for an hour of a day as one of
    the whole day.
    """
    names = ("real_utilization_seconds", "gpu_seconds", "real_utilization_unknown_seconds")
    used, observed, unknown = (total_of_all("", name, over, function="increase") for name in names)
    return f"{used} / ({observed} - {unknown} > 0.001)"


def observed(over: str = RANGE) -> str:
    """Return 0 if any chosen GPU was observed, else nothing."""
    return f"0 * {total_of_all('', 'gpu_seconds', over)}"


def known_zero(expr: str, over: str = RATE) -> str:
    """Return an expression without labels, or 0 where it has no series though GPUs are observed."""
    return f"{expr} or {observed(over)}"


def or_none(expr: str, label: str) -> str:
    """Return what an expression has above 0; if that is nothing though GPUs are observed, 0 with the label `none`."""
    return f'({expr} > 0) or label_replace({observed()} unless on () ({expr} > 0), "{label}", "none", "", "")'


def beside_none(expr: str, label: str) -> str:
    """Return what an expression has above 0 beside a line at 0 with the label `none`, which GPUs are observed for."""
    return f'({expr} > 0) or label_replace({observed(RATE)}, "{label}", "none", "", "")'


def among(expr: str, ranking: str, by: str = GPU) -> str:
    """Return an expression for the GPUs of a ranking, or what else has these labels."""
    return f"{expr} and on ({by}) {ranking}"


def highest_ever(number: int, metric: str, *matchers: str, divided_by: str = "") -> str:
    """Return the GPUs with the highest values of the range: the same ones at every step of it."""
    selector = f"{{{','.join((CHOSEN, *matchers))}}}"
    least = f" / {divided_by}{selector} @ end()" if divided_by else ""
    highest = f"max_over_time({metric}{selector}[{RANGE}] @ end()){least}"
    return f"topk({number}, {highest} unless on (node, uuid) {_OTHER_MODELS} @ end())"


def with_words(label: str, text: str, states: tuple[State, ...]) -> str:
    """Return an expression with the words for the values of a label."""
    for state in states:
        text = f'label_replace({text}, "{label}", "{state.text}", "{label}", "{state.value}")'
    return text


def _found_in_label(pattern: str) -> str:
    """Return the matcher of labels with a product's name, in which blanks may be hyphens, as `is_product` compares."""
    return json.dumps(f"(?i:.*({pattern.replace(' ', '[ _-]')}).*)")


def slowdown_of_model(*matchers: str) -> str:
    """Return the slowdown temperature of the chosen GPUs by pulsed's table of models, for those that report none."""
    none = "|".join(pattern for pattern, limits in BY_MODEL if limits == TemperatureLimits())
    excluded = f"model!~{_found_in_label(none)}"
    selector = ",".join((CHOSEN, *matchers))
    return " or ".join(
        f"pulsed_gpu_info{{{selector},model=~{_found_in_label(pattern)},{excluded}}} * {limits.slowdown:g}"
        for pattern, limits in BY_MODEL
        if limits.slowdown is not None
    )


def state_number(metric: str, label: str, states: tuple[State, ...], selector: str, by: str) -> str:
    """Return the number of the current state per GPU, from a state set or from the series of the current state."""
    numbered = " or ".join(f'{metric}{{{label}="{state.text}",{selector}}} * {state.value}' for state in states)
    return f"sum by ({by}) ({numbered})"
