"""One GPU: every metric with its trend, health with evidence and remedy, accounts, owners and identity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest

from rich.text import Text

from pulsed.number_text import (
    MISSING,
    duration,
    field_text_with_unit,
    left,
    metric,
    parts,
    percent,
    rate,
    right,
    trend,
    whole,
)
from pulsed.present.terminal.fleet import DRIVER, gpu_table, real_bar
from pulsed.present.terminal.model import Document, FleetRow, Model, ratio
from pulsed.present.terminal.text import Drawn, bar, fixed, line, wrapped
from pulsed.present.terminal.view_state import ViewState
from pulsed.present.terminal.words import (
    BOTTLENECK_MARKS,
    bottleneck_style,
    class_words,
    health_words,
    real_words,
    title_of,
    words,
)

MINI_FLEET_FROM = 140
"""Minimum width for a column of the other GPUs."""

MINI_FLEET_WIDTH = 46


GROUPS: Mapping[str, Sequence[str]] = {
    "Utilization": (
        "real_utilization_ratio", "saturation_ratio", DRIVER, "graphics_engine_active_ratio",
        "memory_utilization_ratio",
    ),
    "SM and pipes": (
        "sm_active_ratio", "sm_occupancy_ratio", "tensor_active_ratio", "tensor_hmma_active_ratio",
        "tensor_imma_active_ratio", "tensor_dfma_active_ratio", "fp64_active_ratio", "fp32_active_ratio",
        "fp16_active_ratio", "integer_active_ratio",
    ),
    "Memory": ("dram_active_ratio", "memory_used_bytes", "memory_clock_hertz", "memory_temperature_celsius"),
    "Interconnect and power": (
        "pcie_receive_bytes_per_second", "pcie_transmit_bytes_per_second", "nvlink_receive_bytes_per_second",
        "nvlink_transmit_bytes_per_second", "c2c_receive_bytes_per_second", "c2c_transmit_bytes_per_second",
        "power_watts", "temperature_celsius", "sm_clock_hertz", "energy_joules_total",
    ),
}  # fmt: skip
"""Fields by group."""

OPTIONAL = ("tensor_hmma", "tensor_imma", "tensor_dfma", "integer", "c2c")
"""Beginnings of fields that are left out without reading and history, as not every GPU has them."""

FULL = {
    "memory_used_bytes": "memory_bytes",
    "memory_clock_hertz": "memory_clock_max_hertz",
    "sm_clock_hertz": "sm_clock_max_hertz",
    "power_watts": "power_limit_watts",
    "pcie_receive_bytes_per_second": "pcie_link_bytes_per_second",
    "pcie_transmit_bytes_per_second": "pcie_link_bytes_per_second",
}
"""What a full bar is, where it is another field; ratios are full at 1, temperatures at 100 degrees."""

HISTORY_FIELDS: tuple[str, ...] = tuple(chain(*GROUPS.values()))
"""Fields whose history is shown, where it is kept."""


def focus(model: Model, view: ViewState, gpus: Sequence[FleetRow], width: int, height: int) -> Drawn:
    """Return the selected GPU, next to the others where there is room."""
    gpu = view.current(gpus)
    if gpu is None:
        return Drawn([line(("no GPU", "dim"))])
    bottlenecks = {rule["class"]: rule["bottleneck"] for rule in model.daemons[gpu.source].get("catalog", "rules", ())}
    if width < MINI_FLEET_FROM or len(gpus) < 2:
        return Drawn([*_gpu(gpu, bottlenecks, width)])
    titles, *others = gpu_table(model, view, gpus, MINI_FLEET_WIDTH).lines
    first = max(min(view.place(gpus) - height // 2, len(others) - height + 1), 0)
    pairs = zip_longest(
        [titles, *others[first : first + height - 1]],
        _gpu(gpu, bottlenecks, width - MINI_FLEET_WIDTH - 3),
        fillvalue=line(),
    )
    return Drawn([line(fixed(other, MINI_FLEET_WIDTH), (" │ ", "dim"), one) for other, one in pairs])


def _gpu(gpu: FleetRow, bottlenecks: Mapping[str, str], width: int) -> Iterator[Text]:
    """Yield everything about a GPU; `bottlenecks` are of each class."""
    title = " ".join(part for part in (f"GPU {gpu.node}/{gpu.name}", gpu.mig_profile, gpu.model) if part)
    yield line((title, "title"), "   ", health_words(gpu), "   ", f"RU {real_words(gpu)}")
    yield class_words(gpu)
    for reason in () if gpu.stale else class_reasons(gpu.class_reason):
        yield from wrapped(reason, width)
    if missing := gpu.detail.get("real_utilization", {}).get("missing_inputs"):
        yield from wrapped(f"missing: {', '.join(missing)}; `pulsed doctor` lists how to supply them", width)
    saturation = gpu.detail.get("saturation", {})
    if saturation.get("limiting_resource") not in (None, "unknown"):
        shares = [f"{name} {percent(value)} %" for name, value in saturation["resources"].items() if value is not None]
        yield line(f"  limited by {saturation['limiting_resource']}: {', '.join(shares)}")
    if gpu.use == "held" and gpu.class_age is not None:
        yield line((f"idle but held for {duration(gpu.class_age)}", "warn"))
    yield from _health(gpu.detail, width)
    yield from _table(gpu, width)
    yield from _class_strip(gpu, bottlenecks, width)
    yield from _accounting(gpu.detail, bottlenecks)
    yield from _owners(gpu.detail)
    yield line(("UUID ", "title"), gpu.uuid or MISSING)
    yield Text("   ").join(line((f"{name} ", "title"), text) for name, text in _facts(gpu).items())


def class_reasons(reason: Document) -> Iterator[str]:
    """Yield why a GPU has its class, from `/gpus/{gpu}/class`, which is empty if the daemon has no such route.

    It is the rule that holds, with the values that it compares; of an unknown class the inputs that would decide it.
    """
    if not reason:
        return
    raw = reason["raw_class"]
    if candidates := reason["candidates"]:
        yield f"unknown: the inputs allow {', '.join(map(words, candidates))}"
        if inputs := reason["deciding_inputs"]:
            fields = {name: f" (DCGM field {each['fields'][0]['id']})" if each["fields"] else ""
                      for name, each in inputs.items()}  # fmt: skip
            yield f"these inputs would decide it: {', '.join(name + field for name, field in fields.items())}"
        return
    if raw != reason["class"]:
        yield f"the newest sample alone is {words(raw)}; a class changes when it lasts"
    rule = next(rule for rule in reason["rules"] if rule["holds"] is not False)
    yield f"rule of {words(rule['class'])}: {', '.join(map(_condition, rule['conditions'])) or 'no other rule matches'}"


def _condition(condition: Document) -> str:
    variable, low = condition["variable"], condition["low"]
    field = "_bytes_per_second" if variable == "io" else "_ratio"
    value = field_text_with_unit(field, low if low == condition["high"] else None)
    threshold = field_text_with_unit(field, condition["threshold"])
    c2c = " and C2C" if any(each.startswith("c2c_") for each in condition["inputs"]) else ""
    return f"{'PCIe' if variable == 'io' else title_of(variable)}{c2c} {value} ({condition['comparison']} {threshold})"


def _health(detail: Document, width: int) -> Iterator[Text]:
    """Yield the checks with evidence and remedy, the worst first."""
    checks = detail.get("health", {}).get("checks", [])
    order = ("crit", "hot", "warn", "info", "unknown", "ok")
    for check in sorted(checks, key=lambda each: order.index(each["state"])):
        if check["state"] in ("ok", "unknown"):
            yield from wrapped(check["message"], width)
            continue
        evidence = ", ".join(f"{name} {whole(value) if value is None or value == int(value) else value}"
                             for name, value in check["evidence"].items())  # fmt: skip
        since = "" if check["since"] is None else f" since {_date(check['since'])}"
        yield from wrapped(f"{check['state'].upper()} {check['message']}{since}", width, "", check["state"])
        yield line((f"  evidence: {evidence}", "dim"))
        yield from wrapped(f"What to do: {check['remedy']}", width)
    if unknown := sum(check["state"] == "unknown" for check in checks):
        yield line((f"  {unknown} of {len(checks)} checks are unknown: they have no data", "dim"))


def _date(time: str) -> str:
    return time[:19].replace("T", " ")


def _table(gpu: FleetRow, width: int) -> Iterator[Text]:
    names, now, bars = (26, 11, 18 if width >= 90 else 10) if width >= 70 else (18, 10, 10 if width >= 60 else 0)
    trends = max(width - names - now - bars - 3, 0)
    span = f" of {duration(times[-1] - times[0])}" if (times := gpu.history.get("time", ())) else ""
    for group, fields in GROUPS.items():
        head = f"{left(group, names)} {right('now', now)} {left('of max' if bars else '', bars)} trend{span}"
        yield line((head, "title"))
        for name in fields:
            value, past = gpu.number(name), gpu.history.get(name, ())
            if name.startswith(OPTIONAL) and value is None and all(each is None for each in past):
                continue
            top = (
                1.0 if name.endswith("_ratio") else 100.0 if name.endswith("_celsius") else gpu.last(FULL.get(name, ""))
            )
            is_real = name == "real_utilization_ratio"
            shown = real_bar(gpu, bars) if is_real else bar(bars, "", ratio(value, top))
            style = bottleneck_style(gpu) if is_real else ""
            text = f"{left(title_of(name), names)} {right(field_text_with_unit(name, value), now)} "
            yield line(text, shown if bars and top is not None else " " * bars, " ", (trend(past, trends, top), style))
    yield line(f"{left('PCIe replays', names)} {right(rate(gpu.number('pcie_replays_per_second')), now)} /s")


def _class_strip(gpu: FleetRow, bottlenecks: Mapping[str, str], width: int) -> Iterator[Text]:
    """Yield the class of each point as its mark; a gap is a space."""
    if not (times := gpu.history.get("time")):
        return
    legend = " ".join(f"{mark} {name}" for name, mark in BOTTLENECK_MARKS.items()) + " ? unknown"
    yield line((f"class over the last {duration(times[-1] - times[0])}: ", "title"), (legend, "dim"))
    classes = parts(gpu.history.get("workload_class", ()), width)
    frequent_classes = [Counter(part).most_common(1)[0][0] for part in classes]
    styles = [bottlenecks.get(each, "unknown") for each in frequent_classes]
    marks = [BOTTLENECK_MARKS.get(style, "?") for style in styles]
    yield line(
        *(
            (" " if each is None else mark, style)
            for each, mark, style in zip(frequent_classes, marks, styles, strict=True)
        )
    )


def _accounting(detail: Document, bottlenecks: Mapping[str, str]) -> Iterator[Text]:
    account = detail.get("accounting")
    if not account or account["since"] is None:
        return
    counters = account["counters"]
    seconds, joules = counters["workload_class_seconds"], counters["class_energy_joules"]
    observed = counters["observed_seconds"] or 0.0
    yield line((f"Accounting since {_date(account['since'])}: observed {duration(observed)}", "title"))
    for name in sorted(seconds, key=lambda each: -seconds[each]):
        energy = metric(joules[name] / 3600, "Wh") if name in joules else MISSING
        share = percent(ratio(seconds[name], observed))
        numbers = f"{right(duration(seconds[name]), 7)} {right(share, 4)} % {right(energy, 10)}"
        yield line((f"  {left(words(name), 24)} {numbers}", bottlenecks.get(name, "unknown")))
    if idle := counters["idle_seconds"]:
        yield line("  idle: " + ", ".join(f"{kind} {duration(value)}" for kind, value in idle.items()))


def _owners(detail: Document) -> Iterator[Text]:
    attribution = detail.get("attribution")
    if attribution is not None and not attribution["owners"]:
        yield line(("Owners ", "title"), "none" if attribution["known"] else "not known")
    for owner in attribution["owners"] if attribution else ():
        names = ("user", "account", "partition", "namespace", "name", "container", "workload")
        texts = [f"{name} {owner[name]}" for name in names if owner.get(name)]
        yield line(("Owner ", "title"), ", ".join([f"{owner['kind']} {owner['id']}", *texts]))


def _facts(gpu: FleetRow) -> Mapping[str, str]:
    ecc, xid, state, generation, lanes = (
        gpu.last(name)
        for name in ("ecc_mode", "xid_last_code", "performance_state", "pcie_link_generation", "pcie_link_width")
    )
    return {
        "P-state": whole(state),
        "PCIe": f"gen {whole(generation)} x{whole(lanes)}",
        "ECC": MISSING if ecc is None else "on" if ecc else "off",
        "last XID": whole(xid),
        "weights": str(gpu.detail.get("real_utilization", {}).get("preset", MISSING)),
        "sample": f"{duration(gpu.age)} old",
    }
