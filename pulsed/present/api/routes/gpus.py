"""The routes of GPUs: their current state and health, why a GPU has its class, and the tables behind these values."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from typing import Annotated, Literal, NamedTuple

from fastapi import APIRouter, Query, Response
from pydantic import Field

from pulsed.compute.bounds import media_of
from pulsed.compute.class_table import VARIABLES, ClassRule, Condition, Variable, rules_of
from pulsed.compute.derived_results import Deriver
from pulsed.compute.health.checks import BY_ID
from pulsed.compute.health.inputs import FACTS
from pulsed.compute.products import c2c_of
from pulsed.compute.settings import ComputeSettings
from pulsed.compute.workload import C2C, inputs_of_variables
from pulsed.errors import did_you_mean
from pulsed.host.node_checks import NODE_CHECK_IDS
from pulsed.model.vocabulary import QUANTITIES, WORKLOAD_CLASSES
from pulsed.present.api.documents import GPU, GPU_HEALTH, GPUS, all_gpus, gpu_document, health_document, sources_of
from pulsed.present.api.gpu_columns import GPU_COLUMNS, SUMMARY_FIELDS, summary_document
from pulsed.present.api.gpu_matches import IDENTITY, Match, matches
from pulsed.present.api.json_response import json_response
from pulsed.present.api.routing import (
    NOT_ONE_GPU,
    REFUSED,
    ApiParts,
    GpuPath,
    NodeQuery,
    chosen,
    chosen_fields,
    find_one,
    some_of,
)
from pulsed.present.api.sample_fields import FIELDS
from pulsed.present.api.schema import TEXT, TIME, Document, Member, Shape, ValueKind, listed, mapped, shape_of
from pulsed.present.counters_file import counters_line
from pulsed.present.health_report import health_line
from pulsed.translate.fields import sources

LARGE_GPUS = 64
"""GPUs from which a document is made in a thread: it takes some 10 ms."""

_CHECKS = (*BY_ID, *NODE_CHECK_IDS)


def gpu_router(parts: ApiParts) -> APIRouter:
    """Return the routes `/gpus` and `/gpus/{gpu}`."""
    router, store = APIRouter(), parts.store

    @router.get(
        "/gpus", response_model=GPUS.model | GPU_COLUMNS.model, responses=REFUSED, summary="Current state of every GPU"
    )
    async def gpus(
        view: Annotated[Literal["full", "summary"], Query(description="summary: columns")] = "full",
        fields: str = some_of(FIELDS, "columns of the summary", default=",".join(SUMMARY_FIELDS)),
    ) -> Response:
        wanted, now = chosen_fields(fields), time.monotonic()
        sources = sources_of(store, now, time.time())
        shown = list(matches(store, now))

        def make() -> Response:
            if view == "summary":
                return json_response(summary_document(sources, shown, wanted, now))
            return json_response(all_gpus(sources, shown, now, parts.settings.real_utilization.preset))

        return await asyncio.to_thread(make) if len(shown) > LARGE_GPUS else make()

    @router.get(
        "/gpus/{gpu}",
        response_model=GPU.model,
        responses=NOT_ONE_GPU,
        summary="Current state of one GPU or MIG instance",
    )
    async def one_gpu(gpu: GpuPath, node: NodeQuery = None) -> Response:
        now = time.monotonic()
        found = find_one(store, gpu, node, now)
        return json_response(gpu_document(found, now, parts.settings.real_utilization.preset))

    return router


def health_router(parts: ApiParts) -> APIRouter:
    """Return the route `/health/gpus`."""
    router, store = APIRouter(), parts.store

    @router.get(
        "/health/gpus",
        response_model=listed(GPU_HEALTH).type(),
        responses=REFUSED | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
        summary="Health problems of every GPU, for scripts",
    )
    async def health(
        format: Annotated[Literal["json", "line"], Query(description="line: one line for Nagios")] = "json",
        checks: str = some_of(_CHECKS, "checks that count, all if empty", default=""),
    ) -> Response:
        wanted = chosen("checks", checks, _CHECKS, _unknown_check) if checks else []
        rows = health_document(store, time.monotonic(), wanted)
        return Response(health_line(rows), media_type="text/plain") if format == "line" else json_response(rows)

    return router


def _unknown_check(name: str) -> str:
    return did_you_mean(name, _CHECKS, "the checks are in docs/health.md")


Comparison = Literal["<", ">="]

_RULE = Shape(
    "ClassRuleShape",
    Member("class", str, of="rule.name"),
    Member("bottleneck", str, of="rule.bottleneck"),
    Member("reason", TEXT, of="rule.reason"),
    Member("conditions", list[tuple[str, Comparison, float]], "variable, comparison, threshold"),
)
"""A row of the class table: the first whose conditions all hold gives the class."""


class _Rule(NamedTuple):
    rule: ClassRule
    thresholds: Mapping[str, float]

    @property
    def conditions(self) -> list[tuple[Variable, Comparison, float]]:
        """Its conditions with their thresholds."""
        return [(each.variable, each.comparison, self.thresholds[each.threshold]) for each in self.rule.conditions]


_FIELD = Shape(
    "DcgmFieldShape",
    Member("id", int),
    Member("name", str, of=lambda field: field.names[0] if field.names else field.short),
)
"""A DCGM field that fills a quantity."""

_QUANTITY = Shape(
    "QuantityShape",
    Member("meaning", str, of=lambda name: QUANTITIES[name].meaning),
    Member("group", str, of=lambda name: QUANTITIES[name].group),
    Member("fields", listed(_FIELD), "the preferred one first; empty if it is computed", sources),
    Member(
        "counters_line", str | None, "its line in a counters file of dcgm-exporter", lambda name: _counters_line(name)
    ),
)
"""The meaning of a quantity of `metrics`, and how a source provides it; by its name."""


def _counters_line(name: str) -> str | None:
    return next((counters_line(each, each.names[0]) for each in sources(name) if each.names), None)


_CHECK = Shape(
    "CheckShape",
    Member("title", str),
    Member("rule", str),
    Member("inputs", list[str], of=lambda check: [name for name in check.inputs if name not in FACTS]),
)
"""A health check: what is wrong when it is raised, when that is, and its inputs."""

_CATALOG = Shape(
    "CatalogShape",
    Member("classes", list[str], of=lambda settings: list(WORKLOAD_CLASSES)),
    Member("rules", listed(_RULE), of=lambda settings: _rules(settings)),
    Member(
        "variables",
        dict[str, list[str]],
        "the quantities that determine each variable of the rules",
        lambda settings: _inputs(settings),
    ),
    Member(
        "weights",
        ValueKind(lambda: dict[str, float], asdict),
        "of real utilization",
        lambda settings: settings.real_utilization.chosen_weights(),
    ),
    Member("quantities", mapped(_QUANTITY), of=lambda settings: {name: name for name in QUANTITIES}),
    Member("checks", mapped(_CHECK), of=lambda settings: BY_ID),
)
"""The tables behind class and health of a GPU, with profile, thresholds and weights of some settings."""


def _rules(settings: ComputeSettings) -> list[_Rule]:
    thresholds = asdict(settings.workload.thresholds)
    return [_Rule(rule, thresholds) for rule in rules_of(settings.workload.profile)]


def _inputs(settings: ComputeSettings) -> dict[str, list[str]]:
    return {variable: list(names) for variable, names in inputs_of_variables(settings.workload.profile).items()}


class TriedCondition(NamedTuple):
    """A condition of a rule, with the bounds of its variable."""

    variable: str
    inputs: Annotated[list[str], Field(description="the quantities that determine it; empty for real utilization")]
    comparison: Comparison
    threshold: float
    low: float | None
    high: Annotated[float | None, Field(description="null: unlimited")]
    holds: Annotated[bool | None, Field(description="null: open, by missing inputs")]


class TriedRule(NamedTuple):
    """A row of the class table for a GPU; it holds, does not, or is open."""

    rule: ClassRule
    holds: bool | None
    conditions: Sequence[TriedCondition]


class ClassReason(NamedTuple):
    """Why a GPU has its class."""

    gpu: Match
    rules: Sequence[TriedRule]
    deciding_inputs: Mapping[str, str]


_TRIED_RULE = Shape(
    "TriedRuleShape",
    Member("class", str, of="rule.name"),
    Member("reason", TEXT, of="rule.reason"),
    Member("holds", bool | None, "null: the inputs allow this rule and others"),
    Member("conditions", listed(shape_of("TriedConditionShape", TriedCondition))),
)

CLASS_REASON = Shape(
    "ClassReasonShape",
    *IDENTITY.via("gpu"),
    Member("time", TIME, of="gpu.time"),
    Member("class", str, of="gpu.result.held.workload_class"),
    Member("raw_class", str, "the class of the newest sample alone", "gpu.result.workload.raw_class"),
    Member(
        "candidates",
        ValueKind(lambda: list[str], list),
        "classes that raw_class may be while it is unknown; else empty",
        "gpu.result.workload.candidates",
    ),
    Member("rules", listed(_TRIED_RULE), "up to the last one that the inputs allow"),
    Member("deciding_inputs", mapped(_QUANTITY), "missing inputs that would decide an unknown class"),
)
"""Why a GPU has the class of its newest sample."""


def catalog_router(parts: ApiParts) -> APIRouter:
    """Return the route `/catalog`."""
    router = APIRouter()

    @router.get("/catalog", response_model=_CATALOG.model, summary="Class rules, quantities and health checks")
    async def catalog() -> Response:
        return json_response(_CATALOG.of(parts.settings))

    return router


def class_router(parts: ApiParts) -> APIRouter:
    """Return the route `/gpus/{gpu}/class`."""
    router = APIRouter()

    @router.get(
        "/gpus/{gpu}/class",
        response_model=CLASS_REASON.model,
        responses=NOT_ONE_GPU,
        summary="Why a GPU has its class: the rules that were tried, with bounds of their variables",
    )
    async def class_reason(gpu: GpuPath, node: NodeQuery = None) -> Response:
        return json_response(class_document(find_one(parts.store, gpu, node, time.monotonic()), parts.settings))

    return router


def class_document(match: Match, settings: ComputeSettings) -> Document:
    """Return why a GPU has the class of its newest sample.

    Rules are listed up to the last one that the inputs allow. A rule holds if it is the only one that they allow; if
    they allow several, it is open which holds.
    """
    device, reading, result = match.device, match.reading, match.result
    deriver = Deriver(settings)
    bounds = result.rollup_bounds or deriver.bounds(reading)
    utilization = result.real_utilization.lower, result.real_utilization.upper
    rounding = 0.0 if match.target.tick is None else match.target.tick.layout.rounding
    allowed, io = deriver.reached_rules(device, reading, bounds, utilization, rounding)
    media = media_of(reading)
    low, high = (*bounds.low, utilization[0], io[0], media), (*bounds.high, utilization[1], io[1], media)
    ranges = dict(zip(VARIABLES, zip(low, high, strict=True), strict=True))
    has_c2c = device.whole and c2c_of(device.model) is not None
    absent = () if has_c2c else tuple(name for name in C2C if getattr(reading, name) is None)
    inputs = {
        variable: [name for name in names if name not in absent]
        for variable, names in inputs_of_variables(settings.workload.profile).items()
    }
    table = rules_of(settings.workload.profile)
    rules = [
        TriedRule(
            rule,
            (None if len(allowed) > 1 else True) if rule in allowed else False,
            [_condition(each, settings, ranges, inputs) for each in rule.conditions],
        )
        for rule in table[: table.index(allowed[-1]) + 1]
    ]
    tried = {each.rule: each.conditions for each in rules}
    deciding = dict.fromkeys(_deciding(match, [tried[rule] for rule in allowed])) if result.workload.candidates else ()
    return CLASS_REASON.of(ClassReason(match, rules, {name: name for name in deciding}))


def _condition(
    condition: Condition,
    settings: ComputeSettings,
    ranges: Mapping[Variable, tuple[float, float]],
    inputs: Mapping[Variable, Sequence[str]],
) -> TriedCondition:
    """Return a condition with the bounds of its variable; it is open if it holds for a part of them."""
    low, high = ranges[condition.variable]
    threshold: float = getattr(settings.workload.thresholds, condition.threshold)
    is_open = low < threshold <= high
    return TriedCondition(
        condition.variable,
        list(inputs[condition.variable]),
        condition.comparison,
        threshold,
        low if isfinite(low) else None,
        high if isfinite(high) else None,
        None if is_open else (high < threshold) == (condition.comparison == "<"),
    )


def _deciding(match: Match, rules: Sequence[Sequence[TriedCondition]]) -> Iterator[str]:
    """Yield the quantities without a reading that open conditions of some rules are about."""
    for conditions in rules:
        for condition in conditions:
            if condition.holds is None:
                names = condition.inputs or match.result.real_utilization.missing
                yield from (name for name in names if getattr(match.reading, name) is None)
