"""One GPU: every metric with its trend, health with evidence and remedy, accounts, owners and identity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pulsed.terminal.charts import bar, parts, trend
from pulsed.terminal.fleet import fleet, held_words
from pulsed.terminal.line import Line, Segment, joined, left, line, right, wrapped
from pulsed.terminal.model import Document, GpuHistory, GpuState, Model, ratio
from pulsed.terminal.numbers import Number, duration, gibibytes, megahertz, metric, percent, rate, whole
from pulsed.terminal.view_state import ViewState
from pulsed.terminal.words import (
    BOTTLENECK_MARKS,
    BOTTLENECKS,
    bottleneck_style,
    class_mark,
    class_words,
    gpu_label,
    health_words,
    real_words,
)

HEALTH_ORDER = ("crit", "hot", "warn", "info", "unknown", "ok")
"""The worst first."""

MINI_FLEET_FROM = 140
"""Width from which the other GPUs are beside the one."""

MINI_FLEET_WIDTH = 46


class Metric(NamedTuple):
    """A row: title, text of a value, the field of value and history, and what a full bar is."""

    title: str
    field: str
    text: Callable[[Number], str]
    top: Callable[[GpuState, Document], Number] | float | None = 1.0


def _percent(value: Number) -> str:
    return percent(value) + (" %" if value is not None else "")


def _per_second(value: Number) -> str:
    return metric(value, "B/s")


def _unit(show: Callable[[Number], str], unit: str) -> Callable[[Number], str]:
    return lambda value: show(value) + (f" {unit}" if value is not None else "")


def _of(name: str) -> Callable[[GpuState, Document], Number]:
    return lambda gpu, detail: _metric(detail, name)


GROUPS: Mapping[str, tuple[Metric, ...]] = {
    "Utilization": (
        Metric("Real", "real_utilization_ratio", _percent),
        Metric("Saturation", "saturation_ratio", _percent),
        Metric("GPU util (driver)", "gpu_utilization_ratio", _percent),
        Metric("Graphics engine", "graphics_engine_active_ratio", _percent),
        Metric("Copy (memory util)", "memory_utilization_ratio", _percent),
    ),
    "SM and pipes": (
        Metric("SM active", "sm_active_ratio", _percent),
        Metric("SM occupancy", "sm_occupancy_ratio", _percent),
        Metric("Tensor", "tensor_active_ratio", _percent),
        Metric("Tensor half (HMMA)", "tensor_hmma_active_ratio", _percent),
        Metric("Tensor integer (IMMA)", "tensor_imma_active_ratio", _percent),
        Metric("Tensor FP64 (DFMA)", "tensor_dfma_active_ratio", _percent),
        Metric("FP64", "fp64_active_ratio", _percent),
        Metric("FP32", "fp32_active_ratio", _percent),
        Metric("FP16", "fp16_active_ratio", _percent),
        Metric("Integer", "integer_active_ratio", _percent),
    ),
    "Memory": (
        Metric("DRAM active", "dram_active_ratio", _percent),
        Metric("Memory used", "memory_used_bytes", _unit(gibibytes, "GiB"), _of("memory_bytes")),
        Metric("Memory clock", "memory_clock_hertz", _unit(megahertz, "MHz"), _of("memory_clock_max_hertz")),
        Metric("Memory temperature", "memory_temperature_celsius", _unit(whole, "C"), 100.0),
    ),
    "Interconnect and power": (
        Metric("PCIe receive", "pcie_receive_bytes_per_second", _per_second, lambda gpu, detail: _half(gpu)),
        Metric("PCIe transmit", "pcie_transmit_bytes_per_second", _per_second, lambda gpu, detail: _half(gpu)),
        Metric("NVLink receive", "nvlink_receive_bytes_per_second", _per_second, None),
        Metric("NVLink transmit", "nvlink_transmit_bytes_per_second", _per_second, None),
        Metric("C2C receive", "c2c_receive_bytes_per_second", _per_second, None),
        Metric("C2C transmit", "c2c_transmit_bytes_per_second", _per_second, None),
        Metric("Power", "power_watts", _unit(whole, "W"), _of("power_limit_watts")),
        Metric("Temperature", "temperature_celsius", _unit(whole, "C"), 100.0),
        Metric("SM clock", "sm_clock_hertz", _unit(megahertz, "MHz"), _of("sm_clock_max_hertz")),
        Metric("Energy", "energy_joules_total", lambda value: metric(value, "J"), None),
    ),
}
"""Rows by group. Rows of tensor detail, integer pipes and superchips' links are left out without reading and
history."""

_OPTIONAL = frozenset(
    (
        *("tensor_hmma_active_ratio", "tensor_imma_active_ratio", "tensor_dfma_active_ratio", "integer_active_ratio"),
        *("c2c_receive_bytes_per_second", "c2c_transmit_bytes_per_second"),
    )
)

HISTORY_FIELDS: tuple[str, ...] = tuple(each.field for group in GROUPS.values() for each in group)
"""Fields whose history is shown, where it is kept."""


def focus(model: Model, view: ViewState, gpus: Sequence[GpuState], width: int, height: int) -> list[Line]:
    """Return the view of the selected GPU; from `view.scroll` on."""
    gpu = view.current(gpus)
    if gpu is None:
        return [line(Segment("no GPU", "dim"))]
    if width >= MINI_FLEET_FROM and len(gpus) > 1:
        beside = fleet(model, view, gpus, MINI_FLEET_WIDTH, height).lines
        lines = view.scrolled(list(_lines(gpu, model, width - MINI_FLEET_WIDTH - 3)), height)
        beside += [Line()] * (height - len(beside))
        lines += [Line()] * (height - len(lines))
        return [
            joined([one.fitted(MINI_FLEET_WIDTH), line(Segment(" │ ", "dim")), other])
            for one, other in zip(beside, lines, strict=False)
        ]
    return view.scrolled(list(_lines(gpu, model, width)), height)


def _lines(gpu: GpuState, model: Model, width: int) -> Iterator[Line]:
    detail = model.details.get(gpu.key, {})
    series = model.history.get(gpu.key)
    yield joined(
        [
            line(
                Segment(
                    f"GPU {gpu_label(gpu, with_node=True)} {gpu.mig_profile} {gpu.model}".replace("  ", " "), "title"
                )
            ),
            line(health_words(gpu)),
            line(f"RU {real_words(gpu)}"),
        ],
        "   ",
    )
    yield class_words(gpu, model.time)
    if not gpu.stale:
        for reason in class_reasons(model.class_reasons.get(gpu.key, {})):
            yield from wrapped(reason, width, "  ")
    yield from _why(detail, width)
    if held := held_words(gpu, model.time):
        yield line(Segment(held, "warn"))
    yield from _health(detail, width)
    yield from _table(gpu, detail, series, width)
    yield from _strip(series, width)
    yield from _accounting(detail)
    yield from _owners(detail)
    yield from _identity(gpu, detail)


def _metric(detail: Document, name: str) -> Number:
    value = detail.get("metrics", {}).get(name)
    return value if isinstance(value, (int, float)) else None


def _half(gpu: GpuState) -> Number:
    capacity = gpu.link_bytes_per_second
    return None if capacity is None else capacity / 2


def _value(gpu: GpuState, detail: Document, name: str) -> Number:
    if gpu.stale:
        return None
    value = gpu.number(name)
    return _metric(detail, name) if value is None else value


def _why(detail: Document, width: int) -> Iterator[Line]:
    real = detail.get("real_utilization", {})
    if real.get("missing_inputs"):
        missing = ", ".join(real["missing_inputs"])
        yield from wrapped(f"missing: {missing}; `pulsed doctor` lists how to supply them", width, "  ")
    saturation = detail.get("saturation", {})
    if saturation.get("limiting_resource") not in (None, "unknown"):
        shares = [f"{name} {percent(value)} %" for name, value in saturation["resources"].items() if value is not None]
        yield line(f"  limited by {saturation['limiting_resource']}: {', '.join(shares)}")


def _health(detail: Document, width: int) -> Iterator[Line]:
    checks = detail.get("health", {}).get("checks", [])
    for check in sorted(checks, key=lambda each: HEALTH_ORDER.index(each["state"])):
        if check["state"] in ("ok", "unknown"):
            continue
        evidence = ", ".join(f"{name} {whole(value) if value is None or value == int(value) else value}"
                             for name, value in check["evidence"].items())  # fmt: skip
        since = "" if check["since"] is None else f" since {check['since'][:19].replace('T', ' ')}"
        for each in wrapped(f"{check['state'].upper()} {check['message']}{since}", width, ""):
            yield line(Segment(each.text, check["state"]))
        yield line(Segment(f"  evidence: {evidence}", "dim"))
        yield from wrapped(f"What to do: {check['remedy']}", width, "  ")
    unknown = [check["id"] for check in checks if check["state"] == "unknown"]
    if unknown:
        yield line(Segment(f"  {len(unknown)} of {len(checks)} checks are unknown: their inputs are missing", "dim"))


def _table(gpu: GpuState, detail: Document, series: GpuHistory | None, width: int) -> Iterator[Line]:
    name_width, now_width = (26, 11) if width >= 70 else (18, 10)
    bar_width = 18 if width >= 90 else 10 if width >= 60 else 0
    span = "" if series is None or not series.times else f" of {duration(series.times[-1] - series.times[0])}"
    trend_width = max(width - name_width - now_width - bar_width - 3, 0)
    for group, metrics in GROUPS.items():
        titles = (
            left(group, name_width),
            right("now", now_width),
            left("of max" if bar_width else "", bar_width),
        )
        yield line(Segment(f"{titles[0]} {titles[1]} {titles[2]} trend{span}", "title"))
        for each in metrics:
            value = _value(gpu, detail, each.field)
            past = series.fields.get(each.field, ()) if series is not None else ()
            if each.field in _OPTIONAL and value is None and not any(one is not None for one in past):
                continue
            top = each.top(gpu, detail) if callable(each.top) else each.top
            shown = [Segment(f"{left(each.title, name_width)} {right(each.text(value), now_width)} ")]
            if bar_width:
                shown += _bar(gpu, each, value, top, bar_width)
            style = bottleneck_style(gpu) if each.field == "real_utilization_ratio" else ""
            yield line(*shown, " ", Segment(trend(past, trend_width, top), style))
        if group == "Interconnect and power":
            yield line(f"{left('PCIe replays', name_width)} {right(rate(gpu.replays_per_second), now_width)} /s")


def _bar(gpu: GpuState, each: Metric, value: Number, top: Number, width: int) -> list[Segment]:
    if top is None:
        return [Segment(" " * width)]
    if each.field == "real_utilization_ratio":
        return bar(width, bottleneck_style(gpu), *gpu.bounds, gpu.number("gpu_utilization_ratio"))
    return bar(width, "", ratio(value, top))


def _strip(series: GpuHistory | None, width: int) -> Iterator[Line]:
    """Yield the class of each point as its mark."""
    if series is None or not series.times:
        return
    classes = parts(series.fields.get("workload_class", ()), width)
    yield line(Segment(f"class over the last {duration(series.times[-1] - series.times[0])}: ", "title"), _legend())
    yield Line([Segment(*class_mark(Counter(part).most_common(1)[0][0])) for part in classes])


def _legend() -> Segment:
    return Segment(" ".join(f"{mark} {name}" for name, mark in BOTTLENECK_MARKS.items()) + " ? unknown", "dim")


def _accounting(detail: Document) -> Iterator[Line]:
    account = detail.get("accounting")
    if not account or account["since"] is None:
        return
    counters = account["counters"]
    seconds, joules = counters["workload_class_seconds"], counters["class_energy_joules"]
    observed = counters["observed_seconds"] or 0.0
    yield line(
        Segment(f"Accounting since {account['since'][:19].replace('T', ' ')}: observed {duration(observed)}", "title")
    )
    for name in sorted(seconds, key=lambda each: -seconds[each]):
        energy = metric(joules[name] / 3600, "Wh") if name in joules else "--"
        share = percent(ratio(seconds[name], observed))
        numbers = f"{right(duration(seconds[name]), 7)} {right(share, 4)} % {right(energy, 10)}"
        text = f"  {left(name.replace('_', ' '), 24)} {numbers}"
        yield line(Segment(text, BOTTLENECKS.get(name, "unknown")))
    idle = counters["idle_seconds"]
    if idle:
        yield line("  idle: " + ", ".join(f"{kind} {duration(value)}" for kind, value in idle.items()))


def _owners(detail: Document) -> Iterator[Line]:
    attribution = detail.get("attribution")
    if attribution is None:
        return
    if not attribution["owners"]:
        yield line(Segment("Owners ", "title"), "none" if attribution["known"] else "not known")
    for owner in attribution["owners"]:
        yield line(Segment("Owner ", "title"), _owner_text(owner))


def _owner_text(owner: Mapping[str, Any]) -> str:
    names = ("user", "account", "partition", "namespace", "name", "container", "workload")
    known = [f"{name} {owner[name]}" for name in names if owner.get(name)]
    return ", ".join([f"{owner['kind']} {owner['id']}", *known])


def _on_off(value: Number) -> str:
    return "--" if value is None else "on" if value else "off"


def _identity(gpu: GpuState, detail: Document) -> Iterator[Line]:
    numbers = [
        ("P-state", whole(_metric(detail, "performance_state"))),
        ("PCIe", f"gen {whole(_metric(detail, 'pcie_link_generation'))} x{whole(_metric(detail, 'pcie_link_width'))}"),
        ("ECC", _on_off(_metric(detail, "ecc_mode"))),
        ("last XID", whole(_metric(detail, "xid_last_code"))),
        ("weights", str(detail.get("real_utilization", {}).get("preset", "--"))),
        ("sample", f"{duration(gpu.age)} old"),
    ]  # fmt: skip
    yield line(Segment("UUID ", "title"), gpu.uuid or "--")
    yield joined([line(Segment(f"{name} ", "title"), text) for name, text in numbers], "   ")


_NAMES = {
    "sm": "SM", "tensor": "tensor", "dram": "DRAM", "graphics_engine": "engine", "fp64": "FP64",
    "real_utilization": "real utilization", "io": "PCIe",
}  # fmt: skip


def class_reasons(reason: Document) -> Iterator[str]:
    """Yield sentences about the class of the newest sample; none if the document is empty: the daemon has no route."""
    if not reason:
        return
    raw, candidates = reason["raw_class"], reason["candidates"]
    if candidates:
        yield f"unknown: the inputs allow {', '.join(_words(name) for name in candidates)}"
        if inputs := reason["deciding_inputs"]:
            yield f"these inputs would decide it: {', '.join(_input(name, each) for name, each in inputs.items())}"
        return
    if raw != reason["class"]:
        yield f"the newest sample alone is {_words(raw)}; a class changes when it lasts"
    rule = next(rule for rule in reason["rules"] if rule["holds"] is not False)
    conditions = ", ".join(map(_condition, rule["conditions"]))
    yield f"rule of {_words(rule['class'])}: {conditions or 'no other rule matches'}"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _condition(condition: Document) -> str:
    variable, low = condition["variable"], condition["low"]
    name: str = _NAMES.get(variable) or variable
    if any(each.startswith("c2c_") for each in condition["inputs"]):
        name += " and C2C"
    value = _text(variable, low if low == condition["high"] else None)
    threshold = _text(variable, condition["threshold"])
    return f"{name} {value} ({condition['comparison']} {threshold})"


def _text(variable: str, value: Number) -> str:
    if value is None:
        return "--"
    return metric(value, "B/s") if variable == "io" else f"{percent(value)} %"


def _input(name: str, quantity: Document) -> str:
    fields = quantity["fields"]
    return f"{name} (DCGM field {fields[0]['id']})" if fields else name
