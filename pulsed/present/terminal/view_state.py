"""The chosen view, with the filter of GPUs: `ru<.1 & class!=idle | health>=warn`.

Comparisons `< <= > >= = != ~` (`~`: contains) with names of `NUMBERS` and `TEXTS`, joined by `&` (or a blank) and `|`,
negated by `!`, in parentheses; a single word is searched for in all texts; `"in quotes"` a value may have any
character. A comparison with a missing number is false; `ru=--` matches them. The page has the same language in
`text/filter.js`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

from pulsed.number_text import MISSING
from pulsed.present.terminal.model import FleetRow, Model

Test = Callable[[FleetRow], bool]


class FilterError(ValueError):
    """A filter that cannot be parsed."""


NUMBERS: Mapping[str, str] = {
    "ru": "real_utilization_ratio",
    "lower": "real_utilization_lower_ratio",
    "upper": "real_utilization_upper_ratio",
    "util": "gpu_utilization_ratio",
    "gr": "graphics_engine_active_ratio",
    "sm": "sm_active_ratio",
    "occ": "sm_occupancy_ratio",
    "tensor": "tensor_active_ratio",
    "dram": "dram_active_ratio",
    "sat": "saturation_ratio",
    "mem": "memory_ratio",
    "power": "power_watts",
    "temp": "temperature_celsius",
}
"""Numbers by their names in filters. Ratios may be in percent: `util<5`, `util<5%` and `util<.05` are the same."""

TEXTS: Mapping[str, Callable[[FleetRow], str]] = {
    "gpu": lambda gpu: gpu.name,
    "node": lambda gpu: gpu.node,
    "model": lambda gpu: gpu.model,
    "uuid": lambda gpu: gpu.uuid,
    "class": lambda gpu: gpu.state("workload_class"),
    "bottleneck": lambda gpu: gpu.state("bottleneck"),
    "health": lambda gpu: gpu.health,
    "limit": lambda gpu: gpu.state("limiting_resource"),
    "use": lambda gpu: gpu.use,
    "owner": lambda gpu: " ".join(gpu.owners or ()),
    "held": lambda gpu: "yes" if gpu.use == "held" else "no",
    "stale": lambda gpu: "yes" if gpu.stale else "no",
}
"""Texts by their names in filters. `owner=x` is `owner~x`."""

_SEARCHED = [get for name, get in TEXTS.items() if name not in ("held", "stale")]
_HEALTH = ("unknown", "ok", "info", "warn", "hot", "crit")
_ALLOWED: Mapping[str, Sequence[str]] = {"health": _HEALTH, "held": ("yes", "no"), "stale": ("yes", "no")}
"""The values of some texts; the values of `health` are in order."""

MAX_FRAGMENT_LENGTH, MAX_NESTING = 1000, 50
"""Limits of a filter, whose time and stack grow with both."""

_ORDERS: Mapping[str, Callable[..., bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_SIGNS: Mapping[str, Callable[..., bool]] = {
    **_ORDERS,
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "~": operator.contains,
}
_TOKEN = re.compile(r'<=|>=|!=|==|[<>=~&|!()]|"[^"]*"|[^\s<>=~&|!()]+')
_NUMBER = re.compile(r"(-?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d{1,3})?)(%?)", re.ASCII | re.IGNORECASE)


def gpu_filter(text: str) -> Test:
    """Return the test of a filter; every GPU passes an empty one.

    Raises:
        FilterError: it cannot be parsed.
    """
    if len(text) > MAX_FRAGMENT_LENGTH:
        raise FilterError(f"longer than {MAX_FRAGMENT_LENGTH} characters")
    tokens = _TOKEN.findall(text)
    if tokens.count("!") + tokens.count("(") > MAX_NESTING:
        raise FilterError(f"more than {MAX_NESTING} of ! and (")
    if not tokens:
        return lambda gpu: True
    test = _either(tokens)
    if tokens:
        raise FilterError(f"unexpected {tokens[0]!r}")
    return test


def _either(rest: list[str]) -> Test:
    """Parse by recursive descent; parsed tokens are removed from `rest`."""
    tests = [_all(rest)]
    while _takes(rest, "|"):
        tests.append(_all(rest))
    return lambda gpu: any(test(gpu) for test in tests)


def _all(rest: list[str]) -> Test:
    tests = [_one(rest)]
    while _takes(rest, "&") or (rest and rest[0] not in "|)"):
        tests.append(_one(rest))
    return lambda gpu: all(test(gpu) for test in tests)


def _one(rest: list[str]) -> Test:
    if _takes(rest, "!"):
        test = _one(rest)
        return lambda gpu: not test(gpu)
    if _takes(rest, "("):
        test = _either(rest)
        if not _takes(rest, ")"):
            raise FilterError("a parenthesis is not closed")
        return test
    name = _word(rest, "a name")
    if rest and rest[0] in _SIGNS:
        return _comparison(name.lower(), rest.pop(0), _word(rest, f"a value after {name}"))
    lowered = name.lower()
    return lambda gpu: any(lowered in get(gpu).lower() for get in _SEARCHED)


def _takes(rest: list[str], token: str) -> bool:
    return rest[:1] == [token] and bool(rest.pop(0))


def _word(rest: list[str], what: str) -> str:
    if not rest or rest[0] in (*_SIGNS, *"&|!()"):
        raise FilterError(f"{what} is missing")
    return rest.pop(0).removeprefix('"').removesuffix('"')


def _comparison(name: str, sign: str, value: str) -> Test:
    lowered = value.lower()
    if name in NUMBERS and sign != "~":
        return _number_test(name, sign, value)
    if name not in TEXTS:
        raise FilterError(f"there is no {name}; there are {', '.join((*NUMBERS, *TEXTS))}")
    get, allowed = TEXTS[name], _ALLOWED.get(name, ())
    if sign in _ORDERS and name != "health":
        raise FilterError(f"{name} is a text; use = != or ~")
    if sign != "~" and allowed and lowered not in allowed:
        raise FilterError(f"{name} is one of {', '.join(allowed)}")
    if sign in _ORDERS:
        return lambda gpu: _SIGNS[sign](allowed.index(get(gpu)), allowed.index(lowered))
    if sign == "~" or name == "owner":
        return lambda gpu: (lowered in get(gpu).lower()) is (sign != "!=")
    return lambda gpu: (get(gpu).lower() == lowered) is (sign != "!=")


def _number_test(name: str, sign: str, value: str) -> Test:
    field = NUMBERS[name]
    if value == MISSING and sign not in _ORDERS:
        return lambda gpu: (gpu.last(field) is None) is (sign != "!=")
    match = _NUMBER.fullmatch(value)
    if match is None:
        raise FilterError(f"{name}: {value} is not a number")
    limit = float(match[1])
    if match[2] or (field.endswith("_ratio") and limit > 1):
        limit /= 100
    return lambda gpu: (number := gpu.number(field)) is not None and _SIGNS[sign](number, limit)


Layout = Literal["auto", "cards", "rows"]
LAYOUTS: tuple[Layout, ...] = ("auto", "cards", "rows")


def _largest(name: str) -> Callable[[FleetRow], float]:
    return lambda gpu: inf if (value := gpu.last(name)) is None else -value


_SORTS: Mapping[str, Callable[[FleetRow], float]] = {
    "index": lambda gpu: {"crit": -2.0, "hot": -1.0}.get(gpu.health, 0.0),
    "ru": _largest("real_utilization_ratio"),
    "power": _largest("power_watts"),
    "memory": _largest("memory_ratio"),
    "temperature": _largest("temperature_celsius"),
    "health": lambda gpu: -max(_HEALTH.index(gpu.health), 1) if gpu.health in _HEALTH else -1,
    "waste": lambda gpu: {"held": -2, "idle": -1}.get(gpu.use, 0) + (gpu.last("real_utilization_ratio") or 0.0),
}
SORTS: tuple[str, ...] = (*_SORTS,)
"""Orders of GPUs; `index` has critical and hot ones first, as the page, and `waste` idle ones with an owner."""


@dataclass(slots=True)
class ViewState:
    """Which view is shown, and how.

    Attributes:
        view: a name in `frame.VIEWS`.
        selected: key of the selected GPU; empty for the first.
        filter: as in `gpu_filter`.
        event: index of the selected change, or owner.
        window: seconds of history.
        gpus: names of the GPUs that are shown; empty for all.
        report: a text that is shown in place of the view.
    """

    view: str = "fleet"
    layout: Layout = "auto"
    selected: str = ""
    filter: str = ""
    sort: str = "index"
    reverse: bool = False
    paused: bool = False
    event: int = 0
    window: float = 600.0
    gpus: frozenset[str] = frozenset()
    report: str = ""

    def shown(self, model: Model) -> list[FleetRow]:
        """Return the GPUs that pass the filter, in order."""
        test = gpu_filter(self.filter)
        gpus = sorted((gpu for gpu in model.gpus if self._is_wanted(gpu) and test(gpu)), key=_SORTS[self.sort])
        return gpus[::-1] if self.reverse else gpus

    def current(self, gpus: Sequence[FleetRow]) -> FleetRow | None:
        """Return the selected GPU; the first if it is not among them."""
        return gpus[self.place(gpus)] if gpus else None

    def place(self, gpus: Sequence[FleetRow]) -> int:
        """Return the index of the selected GPU; 0 if it is not among them."""
        return next((at for at, gpu in enumerate(gpus) if gpu.key == self.selected), 0)

    def _is_wanted(self, gpu: FleetRow) -> bool:
        names = (gpu.name, gpu.gpu, gpu.uuid, f"{gpu.node}:{gpu.name}")
        return not self.gpus or not self.gpus.isdisjoint(names)
