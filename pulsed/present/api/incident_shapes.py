"""The shapes of incidents in documents."""

from __future__ import annotations

from pydantic import Field

from pulsed.present.api.gpu_matches import NamedGpu
from pulsed.present.api.schema import DocumentModel, Text

INCIDENT_KINDS = ("health", "xid", "finding", "removal")
"""Kinds of changes that incidents are made of."""


class ConsequenceShape(DocumentModel):
    """A check, XID, finding or removal that followed from the cause of an incident."""

    kind: str = Field(description=", ".join(INCIDENT_KINDS))
    id: str
    state: str
    message: str


class _IncidentDetails(DocumentModel):
    kind: str = Field(description=", ".join(INCIDENT_KINDS))
    cause: str = Field(description="id of the check or finding, code of the XID, reason of the removal")
    state: str = Field(description="worst state of cause and consequences")
    message: str
    remedy: str
    since: str | None = Field(description="null for a source that never delivered")
    until: str | None = Field(description="when cause and consequences had ended; null while one lasts")
    times: int = Field(description="how often the cause began")
    consequences: list[ConsequenceShape]


class IncidentShape(_IncidentDetails, NamedGpu):
    """The problems that a fault of a GPU caused within a minute."""


class AttentionShape(_IncidentDetails):
    """The worst problem of a GPU, or a source that does not deliver."""

    node: str
    gpu: str | None = Field(description="index; null for a source that does not deliver")
    uuid: Text
    mig_id: Text
    target: str = Field(description="the source")
    owners: list[str] = Field(description="`kind:id` of each owner; of a source the owners of its GPUs")
    gpus: int = Field(description="number of GPUs concerned")
