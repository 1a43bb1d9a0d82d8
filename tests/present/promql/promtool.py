"""promtool as a calculator: series in, recording rules on top, and expressions that must have no answer."""

from __future__ import annotations

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import yaml

from tests.support.tools import tool


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([tool("promtool", "prometheus"), *arguments], capture_output=True, text=True, check=False)


def selector(name: str, labels: Mapping[str, str]) -> str:
    pairs = ", ".join(f"{key}={json.dumps(value)}" for key, value in labels.items())
    return f"{name}{{{pairs}}}"


def plain(value: float) -> str:
    """Write a number as promtool's series notation can read it: all digits, no exponent."""
    if value in (float("inf"), float("-inf")) or value != value:
        return {"inf": "Inf", "-inf": "-Inf", "nan": "NaN"}[repr(value)]
    return format(Decimal(repr(float(value))), "f")


def check(
    folder: Path,
    rules: str,
    batches: Iterable[Iterable[tuple[str, str]]],
    empty: Mapping[int, Sequence[str]],
    alerts: Sequence[Mapping[str, object]] = (),
    interval: str = "1m",
) -> str:
    """Evaluate the rules on series (`name{labels}`, values in promtool's notation).

    Args:
        folder: for the files.
        rules: a rule file.
        batches: the input; each is a world of its own. promtool refuses more than some 10,000 samples in a query.
        empty: expressions that must have no answer, by the minute when they are asked.
        alerts: promtool's `alert_rule_test`.
        interval: between two values, and between two evaluations.

    Returns:
        What promtool found wrong; empty if nothing is.
    """
    (folder / "rules.yml").write_text(rules)
    test = {
        "interval": interval,
        "promql_expr_test": [
            {"expr": expr, "eval_time": f"{minute}m", "exp_samples": []} for minute in empty for expr in empty[minute]
        ],
        "alert_rule_test": list(alerts),
    }
    tests = [
        {**test, "input_series": [{"series": name, "values": values} for name, values in batch]} for batch in batches
    ]
    (folder / "test.yml").write_text(
        json.dumps({"rule_files": ["rules.yml"], "evaluation_interval": interval, "tests": tests})
    )
    done = promtool("test", "rules", str(folder / "test.yml"))
    if done.returncode == 0:
        return ""
    return done.stdout + done.stderr


def rules_of(rules: str, alerts: Collection[str]) -> str:
    """Return a rule file with these alerts and the recording rules that they need: promtool evaluates every rule."""
    document = yaml.load(rules, Loader=yaml.CSafeLoader)
    used = defaultdict[str, set[str]](set)
    for group in document["groups"]:
        for rule in group["rules"]:
            used[_name(rule)] |= set(re.findall(r"\w+:pulsed_[\w:]+", rule["expr"]))
    needed, left = set[str](), set(alerts)
    while left:
        needed |= left
        left = set[str]().union(*(used[name] for name in left)) - needed
    for group in document["groups"]:
        group["rules"] = [rule for rule in group["rules"] if _name(rule) in needed]
    return json.dumps(document)


def _name(rule: Mapping[str, str]) -> str:
    return rule.get("record") or rule["alert"]


Fired = dict[str, dict[str, str]]
"""What an alert is sent with: its labels and annotations."""


def fired(
    folder: Path,
    rules: str,
    world: Iterable[tuple[str, str]],
    alerts: Mapping[str, int],
    interval: str = "1m",
    quiet: int | None = None,
) -> dict[str, list[Fired]]:
    """Return the firing alerts by name, each at its minute; promtool prints them beside a wrong expectation.

    Raises:
        AssertionError: one fires at the minute `quiet`.
    """
    early = [f'ALERTS{{alertname="{name}", alertstate="firing"}}' for name in alerts]
    found = _fired(folder, rules, world, list(alerts.items()), interval, {} if quiet is None else {quiet: early})
    return {name: found[name, minute] for name, minute in alerts.items()}


def fired_over_time(
    folder: Path,
    rules: str,
    world: Iterable[tuple[str, str]],
    alerts: Collection[str],
    minutes: Sequence[int],
    interval: str = "1m",
) -> dict[tuple[str, int], list[Fired]]:
    """Return the firing alerts by name and minute, of one world that is evaluated once."""
    return _fired(folder, rules, world, [(name, minute) for name in alerts for minute in minutes], interval, {})


def _fired(
    folder: Path,
    rules: str,
    world: Iterable[tuple[str, str]],
    alerts: Sequence[tuple[str, int]],
    interval: str,
    empty: Mapping[int, Sequence[str]],
) -> dict[tuple[str, int], list[Fired]]:
    wrong = {"exp_labels": {"wrong": "1"}, "exp_annotations": {}}
    tests = [{"alertname": name, "eval_time": f"{minute}m", "exp_alerts": [wrong]} for name, minute in alerts]
    output = check(folder, rules_of(rules, {name for name, _ in alerts}), [world], empty, tests, interval)
    assert "expr:" not in output, output
    found: dict[tuple[str, int], list[Fired]] = {each: [] for each in alerts}
    for name, time, got in re.findall(r"alertname: (\w+), time: (\w+).*?got:\[(?:\]|(.*?)\n *\])", output, re.DOTALL):
        minute = sum(int(number) * MINUTES_OF[unit] for number, unit in re.findall(r"(\d+)([wdhm])", time))
        for labels, texts in re.findall(r"Labels:\{(.*)\}\s+Annotations:\{(.*)\}", got):
            found[name, minute].append({"labels": _pairs(labels), "annotations": _pairs(texts)})
    return found


MINUTES_OF = {"m": 1, "h": 60, "d": 24 * 60, "w": 7 * 24 * 60}
"""By the unit of a time that promtool prints."""


def _pairs(text: str) -> dict[str, str]:
    return {name: json.loads(value) for name, value in re.findall(r'(\w+)=("(?:[^"\\]|\\.)*")', text)}
