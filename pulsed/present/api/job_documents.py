"""The JSON document of one job or pod: its newest account, on request with the texts of `pulsed job`."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from pulsed.owners.accounting.account import OwnerAccount
from pulsed.present.account_totals import pod_account
from pulsed.present.api.account_documents import AccountShape, account_document
from pulsed.present.api.schema import Document, DocumentModel, Time, TimeOrNull
from pulsed.present.job_comparison import compared_jobs, comparison_notes, comparison_rows
from pulsed.present.job_numbers import Prices
from pulsed.present.job_report import job_head, report_of


class EarlierAccountShape(DocumentModel):
    """An earlier account of the same name, such as of a job that was requeued; all of it is in `?all=true`."""

    begin: Time
    end: TimeOrNull


class JobReportShape(DocumentModel):
    """The texts of `pulsed job`, as `JobReport`. Tables are rows of cells, the first one is the head."""

    title: str
    summary: str
    facts: list[tuple[str, str]] = Field(description="title and text of each")
    statistics: list[list[str]]
    balance: list[list[str]]
    advice: list[str]
    unknown: list[str]


class ComparisonShape(DocumentModel):
    """The texts of `pulsed job --compare`."""

    first: str
    second: str
    rows: list[list[str]] = Field(description="the table; the first row is the head")
    notes: list[str] = Field(description="what differs beyond noise, and what is not evaluated")


class NewestAccountShape(AccountShape):
    """The newest account of a name."""

    earlier: list[EarlierAccountShape] = Field(description="earlier accounts of the name, the newest first")
    report: JobReportShape | None = Field(None, description="with `?report=true`")
    comparison: ComparisonShape | None = Field(None, description="with `?with=`")


def newest_document(accounts: Sequence[OwnerAccount], here: str, prices: Prices) -> Document:
    """Return the newest of the accounts of a name; of a pod with all containers that had GPUs at that time.

    Args:
        accounts: the accounts, the newest begin first.
    """
    newest = accounts[0]
    containers = {newest.owner.id: newest}
    if newest.owner.kind == "pod":
        pod = (newest.owner.namespace, newest.owner.name)
        for each in accounts[1:]:
            is_of_pod = each.owner.kind == "pod" and (each.owner.namespace, each.owner.name) == pod
            if is_of_pod and (each.end is None or each.end >= newest.begin):
                containers.setdefault(each.owner.id, each)
    documents = [account_document(each, here, prices) for each in containers.values()]
    document = pod_account(documents) if len(documents) > 1 else documents[0]
    earlier = [EarlierAccountShape.render(each) for each in accounts if each not in containers.values()]
    return {**document, "earlier": earlier}


def report_document(account: Document) -> Document:
    """Return the texts about the newest account of a name, from its document."""
    return report_of(account)._asdict()


def comparison_document(first: Document, second: Document) -> Document:
    """Return the texts of a comparison of two newest accounts, from their documents."""
    quantities = compared_jobs(first, second)["quantities"]
    return {
        "first": job_head(first),
        "second": job_head(second),
        "rows": comparison_rows(quantities),
        "notes": comparison_notes(quantities),
    }
