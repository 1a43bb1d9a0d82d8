"""The notification of an owner about a finding: which one, where, what to do, and the report of the job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import quote

from pulsed.json_text import duration_text, rfc3339
from pulsed.model.gpu import node_of
from pulsed.owners.accounting.account import GpuAccount, OwnerAccount
from pulsed.owners.accounting.extremes import WARM_UP_SECONDS
from pulsed.present.job_advice import FINDING_TEXTS, IDLE_TEXT
from pulsed.present.job_numbers import Account
from pulsed.present.job_report import job_report, job_title

FindingKind = Literal["held_idle", "leaked_memory", "hang", "gpu_lost"]
FINDING_KINDS: tuple[FindingKind, ...] = get_args(FindingKind)


class OwnerFinding(NamedTuple):
    """A finding about GPUs of an owner: what was seen of the first one, and what to do."""

    kind: FindingKind
    gpus: Sequence[GpuAccount]
    evidence: str
    remedy: str


def owner_findings(account: OwnerAccount, idle_after: float) -> Iterator[OwnerFinding]:
    """Yield what is wrong with the GPUs of an owner now.

    Args:
        idle_after: seconds for which a GPU that had worked must be idle.
    """
    idle = [
        account.gpus[key]
        for key in account.holding
        if account.gpus[key].extremes.idle_run >= idle_after and account.gpus[key].extremes.worked >= WARM_UP_SECONDS
    ]
    if idle and account.owner.is_known:
        seconds = max(gpu.extremes.idle_run for gpu in idle)
        yield OwnerFinding(
            "held_idle", idle, f"idle for the last {duration_text(seconds)}, after it had worked", IDLE_TEXT
        )
    for kind in ("hang", "leaked_memory", "gpu_lost"):
        raised = [
            (gpu, condition)
            for gpu in account.gpus.values()
            if (condition := gpu.conditions.get(kind)) is not None and condition.until is None
        ]
        if raised:
            message, remedy = raised[0][1].message, raised[0][1].remedy
            yield OwnerFinding(kind, [gpu for gpu, _ in raised], message, FINDING_TEXTS.get(kind, remedy))


def notification(
    finding: OwnerFinding, account: Account, node: str, time: float, external_url: str | None
) -> dict[str, Any]:
    """Return the document of a finding.

    Args:
        account: the document of the owner.
        node: of this process.
        time: Unix time.
        external_url: of this daemon; None if unknown: there is no link.
    """
    names = [f"{node_of(gpu.device, node)}/{gpu.device.entity.gpu}" for gpu in finding.gpus]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    owner = f"{job_title(account)}: " if account["owner"]["kind"] != "nobody" else ""
    return {
        "finding": finding.kind,
        "time": rfc3339(time),
        "node": node,
        "title": f"{owner}GPU {names[0]}{more}: {finding.evidence}",
        "remedy": finding.remedy,
        "gpus": names,
        "owner": account["owner"],
        "url": None if external_url is None else f"{external_url}/#/job/{quote(account['owner']['id'], safe='')}",
        "text": job_report(account),
    }


def slack_message(document: Mapping[str, Any]) -> dict[str, str]:
    """Return a document as a webhook of Slack takes it."""
    title, remedy, text = (_escaped(document[name]) for name in ("title", "remedy", "text"))
    link = f"\n<{document['url']}>" if document["url"] else ""
    return {"text": f"*{title}*\n{remedy}{link}\n```{text}```"}


def _escaped(text: str) -> str:
    """Return a text without what Slack takes for its markup: `&`, links, mentions and the end of a block."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("```", "'''")
