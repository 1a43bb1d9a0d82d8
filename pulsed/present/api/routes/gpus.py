"""The routes of GPUs: their current state and health, why a GPU has its class, and the tables behind these values."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import Field

from pulsed.compute.activity import media_of
from pulsed.compute.class_table import VARIABLES, ClassRule, Condition, Variable, rules_of
from pulsed.compute.derived_results import Deriver
from pulsed.compute.health.checks import BY_ID
from pulsed.compute.health.inputs import FACTS
from pulsed.compute.products import c2c_of
from pulsed.compute.settings import ComputeSettings
from pulsed.compute.workload import C2C, inputs_of_variables
from pulsed.errors import did_you_mean
from pulsed.host.node_checks import NODE_CHECK_IDS
from pulsed.json_text import rfc3339
from pulsed.model.clocks import Monotonic
from pulsed.model.interval import Interval, between, exactly
from pulsed.model.vocabulary import QUANTITIES, WORKLOAD_CLASSES
from pulsed.present.api.documents import GPU, GPUS, GpuHealthShape, all_gpus, gpu_document, health_document, sources_of
from pulsed.present.api.gpu_columns import SUMMARY_FIELDS, GpuColumnsShape, summary_document
from pulsed.present.api.gpu_matches import Match, NamedGpu, identity_of, matches
from pulsed.present.api.incident_documents import MAX_TROUBLES, attention_documents
from pulsed.present.api.incident_shapes import AttentionShape
from pulsed.present.api.routing import (
    NOT_ONE_GPU,
    REFUSED,
    ApiParts,
    GpuPath,
    NodeAnswer,
    NodeQuery,
    chosen,
    chosen_fields,
    find_one,
    json_response,
    node_answer,
    some_of,
)
from pulsed.present.api.sample_fields import FIELDS
from pulsed.present.api.schema import Document, DocumentModel, Text
from pulsed.present.counters_file import counters_line
from pulsed.present.health_report import health_line
from pulsed.present.runbook import commands_of
from pulsed.translate.fields import sources

LARGE_GPUS = 64
"""GPUs from which a document is made in a thread: it takes some 10 ms."""

_CHECKS = (*BY_ID, *NODE_CHECK_IDS)


def gpu_router(parts: ApiParts) -> APIRouter:
    """Return the routes `/gpus` and `/gpus/{gpu}`."""
    router, store = APIRouter(), parts.store

    @router.get("/gpus", response_model=GPUS | GpuColumnsShape, responses=REFUSED, summary="Current state of every GPU")
    async def gpus(
        view: Annotated[Literal["full", "summary"], Query(description="summary: columns")] = "full",
        fields: str = some_of(FIELDS, "columns of the summary", default=",".join(SUMMARY_FIELDS)),
    ) -> Response:
        names, now = chosen_fields(fields), Monotonic(time.monotonic())
        sources = sources_of(store, now, time.time())
        shown = list(matches(store, now))

        def make() -> Response:
            if view == "summary":
                return json_response(summary_document(sources, shown, names, now))
            return json_response(all_gpus(sources, shown, now, parts.settings.real_utilization.preset))

        return await asyncio.to_thread(make) if len(shown) > LARGE_GPUS else make()

    @router.get(
        "/gpus/{gpu}",
        response_model=GPU,
        responses=NOT_ONE_GPU,
        summary="Current state of one GPU or MIG instance",
    )
    async def one_gpu(gpu: GpuPath, node: NodeQuery = None) -> Response:
        now = Monotonic(time.monotonic())
        match = find_one(store, gpu, node, now)
        return json_response(gpu_document(match, now, parts.settings.real_utilization.preset))

    return router


class AttentionAnswer(NodeAnswer):
    """What needs attention, the worst first."""

    total: int = Field(description="entries without the limit")
    attention: list[AttentionShape]


def health_router(parts: ApiParts) -> APIRouter:
    """Return the route `/health/gpus`."""
    router, store = APIRouter(), parts.store

    @router.get(
        "/health/gpus",
        response_model=list[GpuHealthShape],
        responses=REFUSED | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
        summary="Health problems of every GPU, for scripts",
    )
    async def health(
        format: Annotated[Literal["json", "line"], Query(description="line: one line for Nagios")] = "json",
        checks: str = some_of(_CHECKS, "checks that count, all if empty", default=""),
    ) -> Response:
        check_ids = chosen("checks", checks, _CHECKS, _unknown_check) if checks else []
        rows = health_document(store, Monotonic(time.monotonic()), check_ids)
        return Response(health_line(rows), media_type="text/plain") if format == "line" else json_response(rows)

    @router.get(
        "/attention",
        response_model=AttentionAnswer,
        responses=REFUSED,
        summary="Current problems: one entry per GPU and per source that does not deliver, the worst first",
    )
    async def attention(limit: Annotated[int, Query(ge=1, le=MAX_TROUBLES)] = 20) -> Response:
        rows = attention_documents(store, Monotonic(time.monotonic()))
        return json_response({**node_answer(store.node), "total": len(rows), "attention": rows[:limit]})

    return router


def _unknown_check(name: str) -> str:
    return did_you_mean(name, _CHECKS, "the checks are in docs/health.md")


Comparison = Literal["<", ">="]


class ClassRuleShape(DocumentModel):
    """A row of the class table: the first whose conditions all hold gives the class."""

    name: str = Field(serialization_alias="class")
    bottleneck: str
    reason: Text
    conditions: list[tuple[str, Comparison, float]] = Field(description="variable, comparison, threshold")


class DcgmFieldShape(DocumentModel):
    """A DCGM field that fills a quantity."""

    id: int
    name: str


class QuantityShape(DocumentModel):
    """The meaning of a quantity of `metrics`, and how a source provides it."""

    meaning: str
    group: str
    fields: list[DcgmFieldShape] = Field(description="the preferred one first; empty if it is computed")
    counters_line: str | None = Field(description="its line in a counters file of dcgm-exporter")


def _quantity(name: str) -> Document:
    quantity, fields = QUANTITIES[name], sources(name)
    lines = (counters_line(field, field.names[0]) for field in fields if field.names)
    return {
        "meaning": quantity.meaning,
        "group": quantity.group,
        "fields": [{"id": field.id, "name": field.names[0] if field.names else field.short} for field in fields],
        "counters_line": next(lines, None),
    }


class CheckShape(DocumentModel):
    """A health check: its problem, when it is raised, and its inputs."""

    title: str
    rule: str
    inputs: list[str]
    commands: list[str] = Field(description="that show the fault without pulsed")


class CatalogShape(DocumentModel):
    """The tables behind class and health of a GPU, with profile, thresholds and weights of some settings."""

    classes: list[str]
    rules: list[ClassRuleShape]
    variables: dict[str, list[str]] = Field(description="the quantities that determine each variable of the rules")
    weights: dict[str, float] = Field(description="of real utilization")
    quantities: dict[str, QuantityShape]
    checks: dict[str, CheckShape]


def _catalog(settings: ComputeSettings) -> Document:
    inputs = inputs_of_variables(settings.workload.profile)
    return {
        "classes": WORKLOAD_CLASSES,
        "rules": [_rule(rule, settings) for rule in rules_of(settings.workload.profile)],
        "variables": {variable: list(names) for variable, names in inputs.items()},
        "weights": asdict(settings.real_utilization.chosen_weights()),
        "quantities": {name: _quantity(name) for name in QUANTITIES},
        "checks": {
            name: {
                "title": check.title,
                "rule": check.rule,
                "inputs": [each for each in check.inputs if each not in FACTS],
                "commands": commands_of(name),
            }
            for name, check in BY_ID.items()
        },
    }


def _rule(rule: ClassRule, settings: ComputeSettings) -> Document:
    thresholds = settings.workload.thresholds
    return {
        "class": rule.name,
        "bottleneck": rule.bottleneck,
        "reason": rule.reason or None,
        "conditions": [
            (each.variable, each.comparison, getattr(thresholds, each.threshold)) for each in rule.conditions
        ],
    }


class TriedConditionShape(DocumentModel):
    """A condition of a rule, with the bounds of its variable."""

    variable: str
    inputs: list[str] = Field(description="the quantities that determine it; empty for real utilization")
    comparison: Comparison
    threshold: float
    low: float | None
    high: float | None = Field(description="null: unlimited")
    holds: bool | None = Field(description="null: open, by missing inputs")


class TriedRuleShape(DocumentModel):
    """A row of the class table for a GPU; it holds, does not, or is open."""

    name: str = Field(serialization_alias="class")
    reason: str | None
    holds: bool | None = Field(description="null: the inputs allow this rule and others")
    conditions: list[TriedConditionShape]


class ClassReasonShape(NamedGpu):
    """Why a GPU has the class of its newest sample."""

    time: str
    workload_class: str = Field(serialization_alias="class")
    raw_class: str = Field(description="the class of the newest sample alone")
    candidates: list[str] = Field(description="classes that raw_class may be while it is unknown; otherwise empty")
    rules: list[TriedRuleShape] = Field(description="up to the last one that the inputs allow")
    deciding_inputs: dict[str, QuantityShape] = Field(description="missing inputs that would decide an unknown class")


def catalog_router(parts: ApiParts) -> APIRouter:
    """Return the route `/catalog`."""
    router = APIRouter()

    @router.get("/catalog", response_model=CatalogShape, summary="Class rules, quantities and health checks")
    async def catalog() -> Response:
        return json_response(_catalog(parts.settings))

    return router


def class_router(parts: ApiParts) -> APIRouter:
    """Return the route `/gpus/{gpu}/class`."""
    router = APIRouter()

    @router.get(
        "/gpus/{gpu}/class",
        response_model=ClassReasonShape,
        responses=NOT_ONE_GPU,
        summary="Why a GPU has its class: the rules that were tried, with bounds of their variables",
    )
    async def class_reason(gpu: GpuPath, node: NodeQuery = None) -> Response:
        return json_response(
            class_document(find_one(parts.store, gpu, node, Monotonic(time.monotonic())), parts.settings)
        )

    return router


def class_document(match: Match, settings: ComputeSettings) -> Document:
    """Return why a GPU has the class of its newest sample.

    Rules are listed up to the last one that the inputs allow. A rule holds if it is the only one that they allow; if
    they allow several, it is open which holds.
    """
    device, reading, result = match.device, match.reading, match.result
    deriver = Deriver(settings)
    bounds = result.rollup_bounds or deriver.bounds(reading)
    utilization = result.real_utilization.ratio
    rounding = 0.0 if match.target.tick is None else match.target.tick.layout.rounding
    allowed, io = deriver.reached_rules(device, reading, bounds, utilization, rounding)
    media = media_of(reading)
    inputs_bounds = map(between, bounds.low, bounds.high)
    ranges = dict(zip(VARIABLES, (*inputs_bounds, utilization, io, exactly(media)), strict=True))
    has_c2c = device.whole and c2c_of(device.model) is not None
    absent = () if has_c2c else tuple(name for name in C2C if getattr(reading, name) is None)
    inputs = {
        variable: [name for name in names if name not in absent]
        for variable, names in inputs_of_variables(settings.workload.profile).items()
    }
    table = rules_of(settings.workload.profile)
    tried = {
        rule: [_condition(each, settings, ranges, inputs) for each in rule.conditions]
        for rule in table[: table.index(allowed[-1]) + 1]
    }
    rules = [
        TriedRuleShape(
            name=rule.name,
            reason=rule.reason or None,
            holds=(None if len(allowed) > 1 else True) if rule in allowed else False,
            conditions=conditions,
        )
        for rule, conditions in tried.items()
    ]
    deciding = dict.fromkeys(_deciding(match, [tried[rule] for rule in allowed])) if result.workload.candidates else ()
    return {
        **identity_of(device, match.node),
        "time": rfc3339(match.time),
        "class": result.shown_class.workload_class,
        "raw_class": result.workload.raw_class,
        "candidates": list(result.workload.candidates),
        "rules": [rule.model_dump(by_alias=True) for rule in rules],
        "deciding_inputs": {name: _quantity(name) for name in deciding},
    }


def _condition(
    condition: Condition,
    settings: ComputeSettings,
    ranges: Mapping[Variable, Interval],
    inputs: Mapping[Variable, Sequence[str]],
) -> TriedConditionShape:
    """Return a condition with the bounds of its variable; it is open if it holds for a part of them."""
    bounds = ranges[condition.variable]
    threshold: float = getattr(settings.workload.thresholds, condition.threshold)
    is_open = bounds.low < threshold <= bounds.high
    return TriedConditionShape(
        variable=condition.variable,
        inputs=list(inputs[condition.variable]),
        comparison=condition.comparison,
        threshold=threshold,
        low=bounds.low if isfinite(bounds.low) else None,
        high=bounds.high if isfinite(bounds.high) else None,
        holds=None if is_open else (bounds.high < threshold) == (condition.comparison == "<"),
    )


def _deciding(match: Match, rules: Sequence[Sequence[TriedConditionShape]]) -> Iterator[str]:
    """Yield the quantities without a reading that open conditions of some rules are about."""
    for conditions in rules:
        for condition in conditions:
            if condition.holds is None:
                names = condition.inputs or match.result.real_utilization.ratio.missing
                yield from (name for name in names if getattr(match.reading, name) is None)
