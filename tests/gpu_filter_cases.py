"""The cases of the filter language: `pulsed top` and the page find the same GPUs, or refuse with the same words.

The GPUs are those of `tests.present.terminal.fleet_model`.
"""

from __future__ import annotations

ALL = "0 1 2 3 4 5 6 7:3 8"

FOUND = {
    "": ALL,
    "ru<.1": "3 4",
    "ru<10%": "3 4",
    "ru < 10": "3 4",
    "RU<1e-1": "3 4",
    "ru<.2 & class!=idle": "5",
    "ru=0 & owner~4711": "3",
    "use=held": "3",
    "held=yes": "3",
    "use=free | health=warn": "2 4",
    "(ru>=.6 | ru<=0) & !use=free": "0 2 3",
    "tensor=--": "1 6 7:3",
    "tensor!=-- & power<100": "3 4",
    "upper>60%": "0 1 2 6 7:3",
    "gr>.9 & occ<.5 & mem>.7": "0 1 2 5",
    "stale=yes": "8",
    "gpu=7:3": "7:3",
    "owner~train-0": "1 2",
    "owner=train-0": "1 2",
    "owner!=4711": "2 4 5 6 7:3 8",
    "4711 idle": "3",
    "class=memory_bound": "2",
    "bottleneck==io": "5",
    "temp>60 power>400 gpu=0": "0",
    "health>=warn": "2",
    "health>ok": "2",
    "health<warn & stale=no": "0 1 3 4 5 6 7:3",
    "!health=ok": "2 6 7:3",
    "health=WARN": "2",
    'model="H100 80GB HBM3" & gpu=0': "0",
    "model~h100 & gpu=0": "0",
    "nothing": "",
}
"""By filter the GPUs that pass it."""

REFUSED = {
    "ru<": "a value after ru is missing",
    "ru<x": "ru: x is not a number",
    "ru<nan": "ru: nan is not a number",
    "ru<1_0": "ru: 1_0 is not a number",
    "rux<1": "there is no rux; there are ru, lower",
    "constructor<1": "there is no constructor",
    "class<idle": "class is a text; use = != or ~",
    "health>=bad": "health is one of unknown, ok, info, warn, hot, crit",
    "stale=true": "stale is one of yes, no",
    "(ru<1": "a parenthesis is not closed",
    "ru<1)": "unexpected ')'",
    "& ru<1": "a name is missing",
    "!": "a name is missing",
    "a " * 501: "longer than 1000 characters",
    "!" * 51 + "a": "more than 50 of ! and (",
    "(" * 51 + "a" + ")" * 51: "more than 50 of ! and (",
}
"""By filter that cannot be parsed the beginning of the message."""
