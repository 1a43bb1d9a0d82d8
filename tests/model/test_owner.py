from __future__ import annotations

from dataclasses import replace

from pulsed.model.owner import MAX_TEXT, Owner, pod


def test_no_text_of_an_owner_is_long() -> None:
    owner = pod("n" * 600, "p" * 600, "c" * 600, "u" * 600)
    assert {len(text) for text in (owner.id, owner.uid, owner.name, owner.namespace, owner.container)} == {MAX_TEXT}
    assert len(replace(Owner("slurm_job", "1"), account="a" * 600).account) == MAX_TEXT
