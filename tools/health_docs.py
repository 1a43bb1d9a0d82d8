"""HEALTH.md, from the tables of checks and of XIDs."""

from __future__ import annotations

from collections.abc import Iterator

from pulsed.compute.health.checks import CHECKS
from pulsed.compute.health.settings import threshold_keys
from pulsed.compute.health.xids import ADVICE, XIDS

HEAD = """# Health

What pulsed judges of every GPU, and what to do about it. This page is written from the tables in the code (`make
docs`).

A check is `ok`, `info`, `warn`, `hot`, `crit`, or `unknown`: its inputs are absent, and that is never ok. The state
of a GPU is the worst of the checks that could be judged; `pulsed_gpu_health_coverage_ratio` says how many could.
`hot` stands above `warn`, because heat acts now. A MIG instance has the health of its board.

* A *state* (a repair that is pending, a link that is down) is shown for as long as it is true.
* An *event* (an XID, a step of an error counter) is counted, stamped, and holds its check for the time that the rule
  names. What is held survives a restart of pulsed in `state_dir`, and ends with a reset: the driver was loaded anew,
  the node was restarted, or the GPU's counters began again.
* A code that was there before pulsed was is of unknown age: it never raises more than `warn` unless something else
  says so, too.

Where: `pulsed health` (exit code 0 ok, 1 warn or hot, 2 crit, 3 unknown), `/gpus`, `/health/gpus`, `/events`, the
metrics `pulsed_gpu_health_*`, log lines, and the alerts of `pulsed rules`. Thresholds, checks and the severity of
XIDs are configuration: `health.thresholds.CHECK.KEY`, `health.disabled`, `health.xids`.

dcgm-exporter's default page has the inputs of few checks; `pulsed doctor` says which lines of its CSV to add, and
`deploy/dcgm-exporter/` has them all.
"""


def health() -> str:
    """Write the page."""
    return HEAD + "".join(_checks()) + "".join(_xids())


def _checks() -> Iterator[str]:
    yield "\n## The checks\n\n| check | states | is raised |\n|---|---|---|\n"
    for check in CHECKS:
        yield f"| [`{check.id}`](#{check.id}) | {' '.join(f'`{state}`' for state in check.states)} | {check.rule} |\n"
    for check in CHECKS:
        yield f"\n### {check.id}\n\n{check.title}. {check.rule[0].upper()}{check.rule[1:]}.\n\n"
        yield f"* To do: {check.remedy}\n"
        yield f"* Inputs, any of: {', '.join(f'`{name}`' for name in check.inputs)}\n"
        if keys := threshold_keys(check):
            yield f"* Thresholds: {', '.join(f'`{key}` {value:g}' for key, value in keys.items())}\n"
        notes = []
        if check.optional:
            notes.append("applies only where its inputs are there")
        if check.unless:
            notes.append(f"does not apply to a GPU that has {', '.join(f'`{name}`' for name in check.unless)} instead")
        if check.superseded_by:
            notes.append(f"is not judged while `{check.superseded_by}` is known")
        if not check.guest:
            notes.append("makes no sense in a vGPU guest")
        if notes:
            yield f"* It {'; it '.join(notes)}\n"
        yield f"* Source: {check.source}\n"


def _xids() -> Iterator[str]:
    yield "\n## XIDs\n\nWhat the driver's error codes mean here. A code that is not in the table is a `warn`.\n\n"
    yield "| XID | severity | concerns | what happened | what to do |\n|---|---|---|---|---|\n"
    for xid in XIDS.values():
        yield f"| {xid.code} | `{xid.severity}` | {xid.scope} | {xid.description} | {ADVICE[xid.action]} |\n"
