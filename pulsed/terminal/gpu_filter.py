"""The filter of GPUs: `ru<.1 & class!=idle`.

Comparisons `< <= > >= = != ~` (`~`: contains) with names of `NUMBERS` and `TEXTS`, joined by `&` and `|`, negated by
`!`, in parentheses; a word alone is looked for in all texts. A comparison with a missing number is false; `ru=--` finds
them.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pulsed.terminal.model import GpuState, ratio
from pulsed.terminal.numbers import MISSING, Number

Test = Callable[[GpuState], bool]


class FilterError(ValueError):
    """A filter that cannot be parsed."""


class _Quantity(NamedTuple):
    get: Callable[[GpuState], Number]
    is_ratio: bool


def _field(name: str) -> _Quantity:
    return _Quantity(lambda gpu: gpu.last(name), name.endswith("_ratio"))


NUMBERS: Mapping[str, _Quantity] = {
    "ru": _field("real_utilization_ratio"),
    "util": _field("gpu_utilization_ratio"),
    "gr": _field("graphics_engine_active_ratio"),
    "sm": _field("sm_active_ratio"),
    "occ": _field("sm_occupancy_ratio"),
    "tensor": _field("tensor_active_ratio"),
    "dram": _field("dram_active_ratio"),
    "sat": _field("saturation_ratio"),
    "mem": _Quantity(lambda gpu: ratio(gpu.last("memory_used_bytes"), gpu.last("memory_bytes")), True),
    "power": _field("power_watts"),
    "temp": _field("temperature_celsius"),
}
"""Numbers by their names in filters. Ratios may be in percent: `util<5`, `util<5%` and `util<.05` are the same."""

TEXTS: Mapping[str, Callable[[GpuState], str]] = {
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
    "stale": lambda gpu: "yes" if gpu.stale else "no",
}
"""Texts by their names in filters."""

LONGEST, MOST_NESTED = 1000, 50
"""Limits of a filter, whose time and stack grow with both."""

_TOKEN = re.compile(r"\s*(<=|>=|!=|==|[<>=~&|!()]|[^\s<>=~&|!()]+)")
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
}


def gpu_filter(text: str) -> Test:
    """Return the test of a filter; every GPU passes an empty one.

    Raises:
        FilterError: it cannot be parsed.
    """
    if len(text) > LONGEST:
        raise FilterError(f"longer than {LONGEST} characters")
    tokens = _tokens(text)
    if sum(token in ("!", "(") for token in tokens) > MOST_NESTED:
        raise FilterError(f"more than {MOST_NESTED} of ! and (")
    if not tokens:
        return lambda gpu: True
    parser = _Parser(tokens)
    test = parser.either()
    if parser.rest:
        raise FilterError(f"unexpected {parser.rest[0]!r}")
    return test


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise FilterError(f"unexpected {text[at:]!r}")
        tokens.append(found.group(1))
        at = found.end()
    return tokens


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self.rest = tokens

    def either(self) -> Test:
        tests = [self._all()]
        while self._takes("|"):
            tests.append(self._all())
        return tests[0] if len(tests) == 1 else lambda gpu: any(test(gpu) for test in tests)

    def _all(self) -> Test:
        tests = [self._one()]
        while self._takes("&") or (self.rest and self.rest[0] not in "|)"):
            tests.append(self._one())
        return tests[0] if len(tests) == 1 else lambda gpu: all(test(gpu) for test in tests)

    def _one(self) -> Test:
        if self._takes("!"):
            test = self._one()
            return lambda gpu: not test(gpu)
        if self._takes("("):
            test = self.either()
            if not self._takes(")"):
                raise FilterError("a parenthesis is not closed")
            return test
        name = self._word("a name")
        if self.rest and (self.rest[0] in _COMPARE or self.rest[0] == "~"):
            return _comparison(name, self.rest.pop(0), self._word(f"a value after {name}"))
        wanted = name.lower()
        return lambda gpu: any(wanted in get(gpu).lower() for get in TEXTS.values())

    def _takes(self, token: str) -> bool:
        if self.rest and self.rest[0] == token:
            self.rest = self.rest[1:]
            return True
        return False

    def _word(self, what: str) -> str:
        if not self.rest or re.fullmatch(r"<=|>=|!=|==|[<>=~&|!()]", self.rest[0]):
            raise FilterError(f"{what} is missing")
        word, self.rest = self.rest[0], self.rest[1:]
        return word


def _comparison(name: str, sign: str, value: str) -> Test:
    if name in NUMBERS and sign != "~":
        return _number_test(NUMBERS[name], name, sign, value)
    if name not in TEXTS:
        raise FilterError(f"there is no {name!r}; there are {', '.join((*NUMBERS, *TEXTS))}")
    get, wanted = TEXTS[name], value.lower()
    if sign in ("=", "=="):
        return lambda gpu: get(gpu).lower() == wanted
    if sign == "!=":
        return lambda gpu: get(gpu).lower() != wanted
    if sign == "~":
        return lambda gpu: wanted in get(gpu).lower()
    raise FilterError(f"{name} is a text; use = != or ~")


def _number_test(quantity: _Quantity, name: str, sign: str, value: str) -> Test:
    if value == MISSING and sign in ("=", "==", "!="):
        is_missing = sign != "!="
        return lambda gpu: (quantity.get(gpu) is None) is is_missing
    try:
        limit = float(value.removesuffix("%"))
    except ValueError:
        raise FilterError(f"{name}: {value!r} is not a number") from None
    if quantity.is_ratio and (value.endswith("%") or limit > 1):
        limit /= 100
    compare = _COMPARE[sign]

    def test(gpu: GpuState) -> bool:
        found = quantity.get(gpu)
        return found is not None and not gpu.stale and compare(found, limit)

    return test
