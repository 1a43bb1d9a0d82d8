"""Owners without findings and advice about their work, by the configuration: jobs that need memory instead of SMs, and
interactive ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pulsed.config.settings import Entry, ListKind, Settings, is_text, setting
from pulsed.model.owner import Owner

MAX_REASON_LENGTH = 200

_CRITERIA = ("partition", "account", "label")


@dataclass(frozen=True, slots=True)
class Exemption(Entry):
    """Owners that are exempt: those that match all criteria that are not empty.

    Attributes:
        partition: of a Slurm job.
        account: of a Slurm job.
        label: of a pod or job, `name=value`, or `name` for any value.
        reason: for users, as `interactive`.
    """

    reason: str
    partition: str = ""
    account: str = ""
    label: str = ""

    @property
    def written(self) -> object:
        """The mapping of the keys that are given."""
        return {name: text for name in (*_CRITERIA, "reason") if (text := getattr(self, name))}

    def matches(self, owner: Owner) -> bool:
        """Return whether an owner is exempt."""
        name, _, value = self.label.partition("=")
        labels = dict(owner.labels)
        return (
            self.partition in ("", owner.partition)
            and self.account in ("", owner.account)
            and (not name or (name in labels and value in ("", labels[name])))
        )


def _exemption(value: str | Mapping[str, object]) -> Exemption:
    """Return an exemption, written as a mapping."""
    if isinstance(value, str):
        raise ValueError("is not a mapping")
    if unknown := value.keys() - {*_CRITERIA, "reason"}:
        raise ValueError(f"has the unknown key {min(unknown)[:80]}")
    texts = {name: text for name, text in value.items() if isinstance(text, str) and is_text(text) and text}
    if len(texts) < len(value):
        raise ValueError("has a value that is not a text")
    if "reason" not in texts or len(texts["reason"]) > MAX_REASON_LENGTH:
        raise ValueError(f"has no reason of at most {MAX_REASON_LENGTH} characters")
    if len(texts) == 1:
        raise ValueError(f"needs one of {', '.join(_CRITERIA)}")
    return Exemption(**texts)


Exemptions = Annotated[
    tuple[Exemption, ...],
    ListKind(
        "exemption",
        "mappings with a reason and one or more of partition, account and label, such as {partition: interactive, "
        "reason: interactive}; one or a list of them",
        _exemption,
        "text",
        text_entries=(*_CRITERIA, "reason"),
    ),
]


@dataclass(frozen=True, slots=True)
class FindingSettings(Settings):
    """Findings and advice about the work of owners."""

    exempt: Exemptions = setting(
        (),
        "Owners without findings and advice about their work, as `{partition: P, account: A, label: NAME=VALUE, reason:"
        " TEXT}` with at least one criterion; all must match. Reports show the reason.",
        example=({"partition": "interactive", "reason": "interactive"},),
    )

    def reason(self, owner: Owner) -> str:
        """Return why an owner is exempt; empty if it is not."""
        return next((each.reason for each in self.exempt if each.matches(owner)), "")
