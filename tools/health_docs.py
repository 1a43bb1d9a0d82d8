"""Render docs/health.md from the tables of checks and XIDs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pulsed.compute.health.check import HISTORY_SECONDS, Check
from pulsed.compute.health.checks import CHECKS
from pulsed.compute.health.dcgm_codes import DCGM_CODES, FALSE_ALARMS
from pulsed.compute.health.rule_kinds import Codes
from pulsed.compute.health.xid_rule import XID_INPUTS
from pulsed.compute.health.xids import ADVICE, XIDS, Action, Xid, XidSeverity, advice
from pulsed.compute.settings import ComputeSettings
from pulsed.durations import DAY
from pulsed.host.node_checks import NODE_CHECKS
from pulsed.model.health import SEVERITY
from pulsed.present.promql.health_alerts import HOLDS
from pulsed.present.promql.rule_set import RuleSelection, groups
from pulsed.present.promql.rule_types import Alert
from tools.metric_rows import joined_meaning
from tools.runbook import runbook

HEAD = """# Health

A check is `ok`, `info`, `warn`, `hot`, `crit`, or `unknown` while its inputs are absent. A GPU has the worst state of
its checks; `hot` ranks above `warn`, as heat acts at once. A MIG instance has the health of its board.
`pulsed_gpu_health_coverage_ratio` is the share of checks with inputs. dcgm-exporter's default page lacks most inputs;
the [counters files](../deploy/dcgm-exporter/README.md) add them.

* All checks are evaluated on the newest sample, at most once a second. Events and shares of time are taken from every
  sample. Message, evidence and remedy of a raised check have the present numbers.
* A *state* (a pending repair, a link that is down) is shown while it lasts.
* An *event* (an XID, a step of an error counter) is counted and holds its check for the time given below, with
  `state_dir` also over a restart of pulsed. A reset ends it, except `xid_repeat` and `retired_pages`: the driver was
  reloaded, the node restarted, or the GPU's counters started again.
* While its input is absent, as with a dying driver, an event is kept for its time, and a state that does not pass by
  itself (errors, a pending repair, a defect) for a day.
* An XID that is older than pulsed's first sample is at most `warn` unless other inputs confirm it. The XID of a host
  engine that was restarted is a new event, also if its code is that of before: the engine has another process on this
  machine, or has shown no last XID for two samples.
* A GPU whose readings are not current is `unknown`, never `ok`. So it is while its *source* does not deliver, as during
  an update of dcgm-exporter: then the source is what is wrong. Only what is kept without input stays as it is.

Exit codes of `pulsed health`: 0 ok or info, 1 warn or hot, 2 crit, 3 unknown or wrong usage. Health is also in `/gpus`,
`/health/gpus`, `/events`, `pulsed_gpu_health_*`, the log, and the alerts of `pulsed rules`.

`pulsed_gpu_health_seconds_total{{state}}`, in `/gpus` as `health.seconds`, is how long the GPU was in each state since
its first sample, with `state_dir` also over restarts of pulsed: [availability and mean time between
faults](operations.md#queries). A state lasts from the evaluation that enters it to the one that leaves it; time that no
sample covers is `unknown`, so that all states add up to the time that has passed.

## Absent GPUs

A GPU that its source no longer lists is `unknown`, with `telemetry` at warn, because exporters also leave out healthy
GPUs: unclaimed ones with DRA, or those given away. It is `gpu_lost` only with evidence: XID 79 or `fallen off the bus`,
NVML's error, its place on the PCI bus without a driver, or blank readings before. That lasts, with `state_dir` also
after a restart of pulsed, until the GPU returns or is no longer expected:

|reason|when|
|-|-|
|`replaced`|a board with a new UUID has its index and PCI address, or came when its node was restarted|
|`moved`|another target of this pulsed has reported it since|
|`expired`|it was absent for `health.forget_after` (never by default)|
|`forgotten`|`pulsed health --forget GPU` or `POST /-/forget?gpu=GPU`, with `--web.enable-lifecycle`|

The event `removal` and the log then have the reason. If the GPU returns, its counters start at 0.

* GPUs that the key `gpus` does not select are never missing, nor are those that another driver (`vfio-pci`) has.
* A source without any GPU fails with `no_gpus`: that shows nothing about its GPUs.
* After a restart of the node, as many absent boards are `replaced` as the first sample has new ones; the others stay
  missing, as they may be dead. A restart is detected where the source is on this machine: `dcgmi`, or an exporter at a
  loopback address or this host's name whose page names no other host.
* Forget GPUs that were taken out, or that the exporter no longer shows (`dcgm-exporter -d`).

## Checks

Each check has its problem, what to do, how to verify it without pulsed, its rules, and inputs, one of which is enough.
To give up means to have the GPU repaired: [what to send to the vendor](gpu-is-sick.md#what-to-send-to-the-vendor).
`XIDs` are {xids}. On vGPU guests only these checks apply: {guest}.

A rule ends with the measure that it compares with thresholds: an input, or computed from the inputs. Change thresholds
by measure and state, or by state where only one rule has it; 5 % is 0.05:

```yaml
health:
  disabled: [hot_idle]
  thresholds:
    nvlink_errors: {{nvlink_crc_errors_per_minute.warn: 10}}
    temp_memory: {{warn: -5}}
  xids: {{109: warn}}
```
"""

NODE_HEAD = """
## Checks of the node

What is wrong with the host beside the samples of its GPUs. It is looked at every `host.interval` where pulsed reads the
GPUs of its own host; a container needs the host's `sys`, `proc` and `dev` below `host.root` (chart:
`hostFiles.enabled`). Results are in `/health/gpus` and `pulsed health` (a row without GPU), `pulsed_node_health_check`,
`/host`, the log, and alerts.
"""

XIDS_HEAD = """
## XIDs

By severity and action. Codes of one row have their meanings (`a / b`) in the same order. Other codes are `warn`.
"""

DCGM_HEAD = """
## DCGM's codes

Codes of DCGM's health watches, without `DCGM_FR_`, and what they raise in [`dcgm_health`](#dcgm_health) where none of
the checks of the last column has inputs. For other codes the checks of the same part count.

|code|state|meaning|what to do|instead|
|-|-|-|-|-|
"""

ALERTS_HEAD = """
## Alerts

Health has one alert per severity: critical at `crit` after {critical}, a warning at `warn` or `hot` after {warning}.
The label `check` has the check, the annotations `problem`, `remedy` and `reading` what pulsed has about it. `pulsed
rules --per-check` writes alerts for each check (`PulsedGpuHealthGpuLost`) in their place.

|alert|about|
|-|-|
|`PulsedGpuHealthCritical`, `PulsedGpuHealthWarning`|a check of one GPU|
|`PulsedNodeHealthCritical`, `PulsedNodeHealthWarning`|a check of the node, or of its GPUs, which the alert names|

The cause is the node's where all of its GPUs raise the same check (also `info` of `xid_warning`, for an XID that a
program causes), and always for `telemetry`, `dcgm_diag`, and these groups of checks, which are then the label `check`:
"""

OTHER_ALERTS_HEAD = """
The other alerts of `pulsed rules`, with `…` for values:
"""


def health() -> str:
    """Return the text of docs/health.md."""
    guest = ", ".join(f"`{check.id}`" for check in CHECKS if check.guest)
    head = HEAD.format(guest=guest, xids=_names(XID_INPUTS))
    return (
        head
        + "".join(_checks())
        + NODE_HEAD
        + "".join(_node_checks())
        + XIDS_HEAD
        + "".join(_xids())
        + DCGM_HEAD
        + "".join(_dcgm_codes())
        + ALERTS_HEAD.format(critical=HOLDS["critical"], warning=HOLDS["warning"])
        + "".join(_causes())
        + OTHER_ALERTS_HEAD
        + "".join(_alerts())
    )


def _checks() -> Iterator[str]:
    for check in CHECKS:
        yield f"\n### {check.id}\n\n{_problem_and_action(check)}\n\n{runbook(check.id)}\n"
        for rule in check.rules:
            yield f"* {rule.sentence}{f': `{rule.name}`' if rule.levels else ''}\n"
        if check.note:
            yield f"* {check.note}\n"
        if inputs := _inputs(check):
            yield f"\n{inputs}\n"


def _node_checks() -> Iterator[str]:
    for check in NODE_CHECKS:
        critical = f" At `crit`: {check.critical[0].lower()}{check.critical[1:]}" if check.critical else ""
        yield f"\n### {check.id}\n\n{check.title}. {check.remedy}{critical}\n\n{runbook(check.id)}\n"
        looks = "; after two looks" if check.looks > 1 else ""
        yield f"* {check.rule}{looks}\n* from {check.source}\n"


def _inputs(check: Check) -> str:
    """Return the inputs that are not named as a measure, and which GPUs the check applies to; empty for neither."""
    measures = {rule.name for rule in check.rules if rule.levels}
    others = [name for name in check.inputs if name not in XID_INPUTS and name not in measures]
    names = (["XIDs"] if set(XID_INPUTS) & set(check.inputs) else []) + others
    parts = [f"Inputs: {_names(names)}"] if names else []
    if check.optional:
        parts.append("Only where present")
    if without := check.unless or (check.superseded_by and (check.superseded_by,)):
        parts.append(f"Not with {_names(without)}")
    return " ".join(f"{part}." for part in parts)


def _problem_and_action(check: Check) -> str:
    """Return the title, and the remedy without the problem that it begins with (`PROBLEM (details): action`)."""
    remedy = re.sub(r"{.*?}", "…", check.remedy.replace("{advice}", _advice(check)))
    begin = re.match(r"[^:(]*(\(.*?\))?: ", remedy)
    details = f" {begin[1]}" if begin and begin[1] else ""
    action = remedy[begin.end() :] if begin else remedy
    days = f"{HISTORY_SECONDS / DAY:g} days"
    recurs = f" If raised before within {days}: {check.recurs[0].lower()}{check.recurs[1:]}" if check.recurs else ""
    critical = f" At `crit`: {check.critical[0].lower()}{check.critical[1:]}" if check.critical else ""
    return f"{check.title}{details}. {action[0].upper()}{action[1:]}{critical}{recurs}"


def _advice(check: Check) -> str:
    for rule in check.rules:
        if isinstance(rule, Codes):
            return "; ".join(f"{code}: {action}" for code, action in rule.actions.items())
    return f"do what the {'[code](#dcgms-codes)' if check.id == 'dcgm_health' else '[XID](#xids)'} needs"


def _dcgm_codes() -> Iterator[str]:
    """Yield a row for each meaning of DCGM's codes."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for code in DCGM_CODES.values():
        checks = _names(code.checks) or FALSE_ALARMS.get(code.false_alarm, "")
        if code.checks and code.false_alarm:
            checks += f"; {FALSE_ALARMS[code.false_alarm]}"
        rows.setdefault((code.severity, code.meaning, code.remedy, checks), []).append(code.code)
    for (severity, meaning, remedy, checks), codes in rows.items():
        yield f"|{', '.join(name.removeprefix('DCGM_FR_') for name in codes)}|{severity}|{meaning}|{remedy}|{checks}|\n"


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
    """Yield codes and meaning; meanings that differ in a number only (`copy engine 0 exception`) share a row.

    So do neighbours that differ in one place: `SPI flash read / write through PMU failed`.
    """
    rows: dict[str, list[Xid]] = {}
    for xid in xids:
        rows.setdefault(re.sub(r"(?<= )\d+(?= exception)", "N", xid.description), []).append(xid)
    group: list[Xid] = []
    for meaning, alike in (*rows.items(), ("", [])):
        if group and (len(alike) != 1 or not _joined([*group, *alike])):
            yield [xid.code for xid in group], _joined(group)
            group = []
        if len(alike) == 1:
            group += alike
        elif alike:
            yield [xid.code for xid in alike], meaning


def _joined(xids: list[Xid]) -> str:
    """Return the meaning of several codes; empty if it would join clauses."""
    joined = joined_meaning([xid.description for xid in xids])
    return "" if re.search(r"[:;] /|,.* /", joined) else joined


def _causes() -> Iterator[str]:
    """Yield a chapter per cause that several checks have."""
    for cause in dict.fromkeys(check.cause for check in CHECKS if check.cause and check.cause != check.id):
        ids = [f"[`{check.id}`](#{check.id})" for check in CHECKS if check.cause == cause]
        yield f"\n### {cause}\n\n{', '.join(ids)}\n"


def _alerts() -> Iterator[str]:
    """Yield a chapter per alert; the alerts of jobs and of pods share one."""
    alerts = [
        alert
        for group in groups(ComputeSettings(), RuleSelection("alerting"))
        for alert in group.rules
        if isinstance(alert, Alert) and not alert.runbook
    ]
    names = {alert.name for alert in alerts}
    for alert in alerts:
        of_pods = alert.name.replace("PulsedJob", "PulsedPod")
        if alert.name.replace("PulsedPod", "PulsedJob") != alert.name:
            continue
        headings = [alert.name, *([of_pods] if of_pods != alert.name and of_pods in names else [])]
        yield "".join(f"\n### {heading}\n" for heading in headings)
        summary = _plain(alert.summary)
        summary = summary.replace("A job", "A job or pod", 1) if len(headings) > 1 else summary
        yield f"\n{summary}: {alert.severity} after {alert.hold}. {_plain(alert.description)}\n"


def _plain(template: str) -> str:
    """Return a text without its optional parts, which Prometheus looks up, and with `…` for values but the subject."""
    before = ""
    while before != template:
        before, template = template, _OPTIONAL.sub("", template)
    text = re.sub(r"{{.*?}}", "…", template).strip()
    return re.sub(r"^(GPU|Pod|Job) …(?: (?:of|in) …)?", lambda found: "A " + _SUBJECTS.get(found[1], found[1]), text)


_SUBJECTS = {"Pod": "pod", "Job": "job"}
_OPTIONAL = re.compile(r"{{ (?:with|range|if) (?:(?!}}).)*}}(?:(?!{{ (?:with|range|if) ).)*?{{ end }}")
