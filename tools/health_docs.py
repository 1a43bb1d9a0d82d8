"""Render docs/health.md from the tables of checks and XIDs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pulsed.compute.health.check import HISTORY_SECONDS, Check
from pulsed.compute.health.checks import CHECKS
from pulsed.compute.health.measures import DCGM_CODES, FALSE_ALARMS
from pulsed.compute.health.rule_kinds import Codes
from pulsed.compute.health.xids import ADVICE, XIDS, Action, Xid, XidSeverity, advice
from pulsed.compute.settings import ComputeSettings
from pulsed.durations import DAY
from pulsed.host.node_checks import NODE_CHECKS
from pulsed.model.health import SEVERITY
from pulsed.present.promql.health_alerts import HOLDS
from pulsed.present.promql.rule_set import RuleSelection, groups
from pulsed.present.promql.rule_types import Alert
from pulsed.present.runbook import ALERTS, runbook
from tools.metric_rows import joined_meaning

HEAD = """# Health

`pulsed health` lists what is wrong and what to do. Exit codes: 0 ok or info, 1 warn or hot, 2 crit, 3 unknown or wrong
usage. A sick GPU, step by step, and what the vendor needs: [gpu-is-sick.md](gpu-is-sick.md).

|check|problem|do first|
|-|-|-|
{index}
[XIDs](#xids) · [DCGM's codes](#dcgms-codes) · [alerts](#alerts) · [GPUs that are gone](#absent-gpus)

## States

A check is `ok`, `info`, `warn`, `hot`, `crit`, or `unknown` while its inputs are absent. A GPU has its worst state;
`hot` ranks above `warn`. A MIG instance has the health of its board.

* **Unknown is not ok, and not broken.** A GPU without current readings is `unknown`; so are all GPUs of a source that
  does not deliver.
* `pulsed_gpu_health_coverage_ratio` is the share of checks that have inputs. The [counters
  files](../deploy/dcgm-exporter/README.md) add what dcgm-exporter's default page lacks.
* A state, such as a pending repair, lasts as long as its cause. An event, such as an XID, is held for the time below,
  with `state_dir` also over a restart, until the GPU is reset (not `xid_repeat`, `retired_pages`).
* While an input is absent, events are kept for their time and defects for a day.
* An XID older than pulsed's first sample is at most `warn` without other evidence.
* vGPU guests have only {guest}.

Health is also in `/health/gpus`, `/gpus`, `/events`, `pulsed_gpu_health_*`, the log, and the [alerts](#alerts).
`pulsed_gpu_health_seconds_total{{state}}` gives [availability and mean time between faults](operations.md#queries).

## Thresholds

The measure at the end of a rule is the key of its thresholds. A state alone is enough where one rule has it. 5 % is
0.05:

```yaml
health:
  disabled: [hot_idle]
  thresholds:
    nvlink_errors: {{nvlink_crc_errors_per_minute.warn: 10}}
    temp_memory: {{warn: -5}}
  xids: {{109: warn}}
```

## Absent GPUs

A GPU that its source no longer lists is `unknown`, with `telemetry` at warn: exporters also leave out healthy GPUs. It
is `gpu_lost` only with evidence: XID 79, `fallen off the bus`, NVML's error, a place on the PCI bus without a driver.
It stays, with `state_dir` over restarts, until it returns or the event `removal` has a reason:

|reason|when|
|-|-|
|`moved`|another target of this pulsed reports it|
|`expired`|it was absent for `health.forget_after` (default: never)|
|`forgotten`|`pulsed health --forget GPU`, or `POST /-/forget?gpu=GPU` with `--web.enable-lifecycle`|

Forget a GPU that was taken out or replaced. If it returns, its counters start at 0. GPUs that the key `gpus` leaves
out, or that `vfio-pci` has, are never missing. A source without any GPU fails with `no_gpus`.

## Checks

**Verify** works without pulsed. **Give up** means: open a case with [what the vendor
needs](gpu-is-sick.md#what-to-send-to-the-vendor). By default: heat when the GPU
is hotter than its neighbours at the same load and clean airflow; a link when it fails with another cable, too: board or
switch. `curl localhost:9401/catalog` has the inputs of each check.
"""

NODE_HEAD = """
## Checks of the node

Evaluated every `host.interval` where pulsed reads the GPUs of its own host; in a container with `host.root` (chart:
`hostFiles.enabled`). They are rows without GPU in `pulsed health` and `/health/gpus`, and `pulsed_node_health_check`.
"""

XIDS_HEAD = """
## XIDs

Codes in one row have their meanings (`a / b`) in the same order; `pulsed health` has more. Other codes are `warn`.
"""

DCGM_HEAD = """
## DCGM's codes

Codes of DCGM's health watches, without `DCGM_FR_`. They raise [`dcgm_health`](#dcgm_health) only where no check of the
last column has inputs.

|code|state|what to do|instead|
|-|-|-|-|
"""

ALERTS_HEAD = """
## Alerts

|alert|about|
|-|-|
|`PulsedGpuHealthCritical`, `PulsedGpuHealthWarning`|one GPU: `crit` for {critical}, `warn` or `hot` for {warning}|
|`PulsedNodeHealthCritical`, `PulsedNodeHealthWarning`|the node, or several of its GPUs with one cause|

The label `check` names the check; the annotations `problem`, `remedy` and `reading` have the details. The node's
alert fires when all of its GPUs raise the same check, and always for `telemetry`, `dcgm_diag` and these groups, whose
name is then the label:
"""

OTHER_ALERTS_HEAD = """
The other alerts of `pulsed rules`, whose descriptions have the values:
"""


def health() -> str:
    """Return the text of docs/health.md."""
    guest = ", ".join(f"`{check.id}`" for check in CHECKS if check.guest)
    head = HEAD.format(guest=guest, index="".join(_index()))
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


def _index() -> Iterator[str]:
    """Yield a row for each check: its problem, and what to do first."""
    for check in CHECKS:
        problem, action = _problem_and_action(check)
        yield f"|[{check.id}](#{check.id})|{problem}|{action}|\n"
    for node_check in NODE_CHECKS:
        action = f"{node_check.remedy}{_at_crit(node_check.critical)}".replace("|", "\\|")
        yield f"|[{node_check.id}](#{node_check.id})|{node_check.title}|{action}|\n"


def _at_crit(critical: str) -> str:
    """Return what to do at `crit`, without the problem that it begins with."""
    return f" At `crit`: {critical.split(': ', 1)[-1]}" if critical else ""


def _checks() -> Iterator[str]:
    for check in CHECKS:
        yield f"\n### {check.id}\n\n{runbook(check.id)}\n"
        for rule in check.rules:
            yield f"* {rule.sentence}{f': `{rule.name}`' if rule.levels else ''}\n"
        if check.note:
            yield f"* {check.note}\n"
        if check.optional:
            yield "* Only where present\n"


def _node_checks() -> Iterator[str]:
    for check in NODE_CHECKS:
        looks = "; after two looks" if check.looks > 1 else ""
        yield f"\n### {check.id}\n\n{runbook(check.id)}\n* {check.rule}{looks}\n"


def _problem_and_action(check: Check) -> tuple[str, str]:
    """Return the title, and the remedy without the problem that it begins with (`PROBLEM (details): action`)."""
    remedy = re.sub(r"{.*?}", "…", check.remedy.replace("{advice}", _advice(check)))
    begin = re.match(r"[^:(]*(\(.*?\))?: ", remedy)
    details = f" {begin[1]}" if begin and begin[1] else ""
    action = remedy[begin.end() :] if begin else remedy
    days = f"{HISTORY_SECONDS / DAY:g} days"
    recurs = f" Again within {days}: {check.recurs.split(': ', 1)[-1]}" if check.recurs else ""
    return f"{check.title}{details}", f"{action[0].upper()}{action[1:]}{_at_crit(check.critical)}{recurs}"


def _advice(check: Check) -> str:
    for rule in check.rules:
        if isinstance(rule, Codes):
            return "; ".join(f"{code}: {action}" for code, action in rule.actions.items())
    return f"do what the {'[code](#dcgms-codes)' if check.id == 'dcgm_health' else '[XID](#xids)'} needs"


def _dcgm_codes() -> Iterator[str]:
    """Yield a row for each state and remedy of DCGM's codes."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for code in DCGM_CODES.values():
        checks = _names(code.checks) or FALSE_ALARMS.get(code.false_alarm, "")
        if code.checks and code.false_alarm:
            checks += f"; {FALSE_ALARMS[code.false_alarm]}"
        rows.setdefault((code.severity, code.remedy, checks), []).append(code.code)
    for (severity, remedy, checks), codes in rows.items():
        yield f"|{', '.join(name.removeprefix('DCGM_FR_') for name in codes)}|{severity}|{remedy}|{checks}|\n"


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
            yield f"|{','.join(map(str, codes))}|{meaning}|\n"


def _alike(xids: list[Xid]) -> Iterator[tuple[list[int], str]]:
    """Yield codes and meaning; meanings that differ in a number only (`copy engine 0 exception`) share a row.

    So do neighbours that differ in one place: `SPI flash read / write through PMU failed`.
    """
    rows: dict[str, list[Xid]] = {}
    for xid in xids:
        rows.setdefault(re.sub(r"(?<= )\d+(?= exception)", "N", _short(xid)), []).append(xid)
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
    joined = joined_meaning([_short(xid) for xid in xids])
    return "" if re.search(r"[:;] /|,.* /", joined) else joined


def _short(xid: Xid) -> str:
    """Return the meaning of a code; without details that `pulsed health` has, where they do not decide what to do."""
    return re.split("; " if xid.severity == "crit" else "[:;] ", xid.description)[0]


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
        yield f"\n`{alert.severity}` after {alert.hold}. {ALERTS[alert.name]}.\n"
