"""Render HEALTH.md from the tables of checks and XIDs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pulsed.compute.health.check import Check
from pulsed.compute.health.checks import CHECKS
from pulsed.compute.health.settings import threshold_keys
from pulsed.compute.health.xid_rule import XID_INPUTS
from pulsed.compute.health.xids import ADVICE, XIDS, Action, Xid, XidSeverity, advice
from pulsed.compute.settings import ComputeSettings
from pulsed.model.health import SEVERITY
from pulsed.present.promql.rule_set import RuleSelection, groups
from pulsed.present.promql.rule_types import Alert

HEAD = """# Health

A check is `ok`, `info`, `warn`, `hot`, `crit`, or `unknown` while its inputs are absent. A GPU has the worst state of
its checks; `hot` ranks above `warn` because heat acts at once. A MIG instance has the health of its board.
`pulsed_gpu_health_coverage_ratio` is the share of checks with inputs. dcgm-exporter's default page lacks most of them;
the [counters files](deploy/dcgm-exporter/README.md) add them.

* A *state* (a pending repair, a link that is down) is shown while it lasts.
* An *event* (an XID, a step of an error counter) is counted and holds its check for the time given below, with
  `state_dir` also over a restart of pulsed. A reset ends it: the driver was reloaded, the node restarted, or the GPU's
  counters started again.
* An XID that is older than pulsed's first sample is at most `warn` unless other inputs confirm it.
* A GPU whose readings are not current is `unknown`, never `ok`. So it is while its *source* does not deliver, as during
  an update of dcgm-exporter: then the source is what is wrong. Only raised events and absent GPUs stay as they are.

`pulsed health` has the exit codes 0 ok or info, 1 warn or hot, 2 crit, 3 unknown or wrong usage. Health is also in
`/gpus`, `/health/gpus`, `/events`, `pulsed_gpu_health_*`, the log, and the alerts of `pulsed rules`. Configure it with
`health.thresholds.CHECK.KEY`, `health.disabled` and `health.xids`.

## Absent GPUs

A GPU that is absent while its source delivers is `gpu_lost`; with `state_dir` also after a restart of pulsed. It stays
so until it returns, or is no longer expected:

|reason|when|
|-|-|
|`replaced`|a board with a new UUID has its index and PCI address, or came in its stead when its node was restarted|
|`moved`|another target of this pulsed has reported it since|
|`expired`|it was absent for `health.forget_after` (24 h)|
|`forgotten`|`pulsed health --forget GPU` or `POST /-/forget?gpu=GPU`, with `--web.enable-lifecycle`|

That is logged and sent as the event `removal`. The state of the GPU is dropped: if it returns, its counters start at 0.

* GPUs that the key `gpus` does not select are never lost.
* After a restart of the node, new boards in the first sample replace as many absent ones; the others stay lost, as they
  may be dead. A restart is detected where the source is on this machine: `dcgmi`, or an exporter at a loopback address
  or this host's name whose page names no other host.
* A shorter list of an exporter (`dcgm-exporter -d`) looks like lost GPUs. Forget those, and GPUs that were taken out.

## Checks

When a check is raised, what to do, the inputs (one is enough), and the thresholds that can be configured. `XIDs` are
{xids}. On vGPU guests only these apply: {guest}.
"""

XIDS_HEAD = """
## XIDs

By severity and action. Other codes are `warn`.
"""

ALERTS_HEAD = """
## Alerts

A check's alert, `PulsedGpuHealth` and its name, leads to the check above: critical at `crit`, else a warning. The other
alerts of `pulsed rules`, also those on plain `DCGM_FI_*` series, with `…` for what their text looks up:
"""


def health() -> str:
    """Return the text of HEALTH.md."""
    guest = ", ".join(f"`{check.id}`" for check in CHECKS if check.guest)
    head = HEAD.format(guest=guest, xids=_names(XID_INPUTS))
    return head + "".join(_checks()) + XIDS_HEAD + "".join(_xids()) + ALERTS_HEAD + "".join(_alerts())


def _checks() -> Iterator[str]:
    for check in CHECKS:
        yield f"\n### {check.id}\n\n{check.title}: {check.rule}.\n\n{_action(check.remedy)}\n\n"
        yield f"Inputs: {_inputs(check)}{_condition(check)}."
        keys = threshold_keys(check)
        if shown := [key for key in keys if "." not in key or key.rpartition(".")[2] not in keys]:
            yield f" Thresholds: {', '.join(f'`{key}` {keys[key]:g}' for key in shown)}."
        yield "\n"


def _inputs(check: Check) -> str:
    others = [name for name in check.inputs if name not in XID_INPUTS]
    return ", ".join([*(["`XIDs`"] if len(others) < len(check.inputs) else []), *([_names(others)] if others else [])])


def _action(remedy: str) -> str:
    """Return a remedy without the problem that it repeats (`PROBLEM: action`), unless that has details."""
    problem, _, action = remedy.partition(": ")
    shown = re.sub(r"{.*?}", "…", remedy if re.search("[({]", problem) or not action else action)
    return shown[0].upper() + shown[1:]


def _condition(check: Check) -> str:
    """Return which GPUs a check applies to; empty for all."""
    if check.optional:
        return " (only where present)"
    if others := check.unless or (check.superseded_by and (check.superseded_by,)):
        return f" (not with {_names(others)})"
    return ""


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _xids() -> Iterator[str]:
    """Yield a list for every severity and action, worst first."""
    groups: dict[tuple[XidSeverity, Action], list[Xid]] = {}
    for xid in XIDS.values():
        groups.setdefault((xid.severity, xid.action), []).append(xid)
    for severity, action in sorted(groups, key=lambda group: (-SEVERITY[group[0]], list(ADVICE).index(group[1]))):
        yield f"\n### `{severity}`: {advice(severity, action)}\n\n|XID|meaning|\n|-|-|\n"
        for codes, meaning in _alike(groups[severity, action]):
            yield f"|{', '.join(map(str, codes))}|{meaning}|\n"


def _alike(xids: list[Xid]) -> Iterator[tuple[list[int], str]]:
    """Yield codes and meaning; meanings that differ in a number only (`copy engine 0 exception`) share a row."""
    rows: dict[str, list[Xid]] = {}
    for xid in xids:
        rows.setdefault(re.sub(r"(?<= )\d+(?= exception)", "N", xid.description), []).append(xid)
    for meaning, alike in rows.items():
        yield [xid.code for xid in alike], meaning if len(alike) > 1 else alike[0].description


def _alerts() -> Iterator[str]:
    """Yield a chapter per alert; the alert of pods refers to that of jobs."""
    for group in groups(ComputeSettings(), RuleSelection("alerting", "pulsed")):
        for alert in group.rules:
            if isinstance(alert, Alert) and not alert.runbook:
                yield f"\n### {alert.name}\n\n{_plain(alert.summary)}: {alert.severity} after {alert.hold}.\n"
                job = alert.name.replace("PulsedPod", "PulsedJob")
                yield f"\n{_plain(alert.description)}\n" if job == alert.name else f"\nAs [{job}](#{job.lower()}).\n"


def _plain(template: str) -> str:
    """Return a text without its optional parts, which Prometheus looks up, and with `…` for values but the subject."""
    before = ""
    while before != template:
        before, template = template, _OPTIONAL.sub("", template)
    text = re.sub(r"{{.*?}}", "…", template).strip()
    return re.sub(r"^(GPU|Pod|Job) …(?: (?:of|in) …)?", lambda found: "A " + _SUBJECTS.get(found[1], found[1]), text)


_SUBJECTS = {"Pod": "pod", "Job": "job"}
_OPTIONAL = re.compile(r"{{ (?:with|range|if) (?:(?!}}).)*}}(?:(?!{{ (?:with|range|if) ).)*?{{ end }}")
