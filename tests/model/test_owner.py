from __future__ import annotations

from dataclasses import replace

import pytest

from pulsed.model.owner import MAX_TEXT, Owner, pod


def test_no_text_of_an_owner_is_long() -> None:
    owner = pod("n" * 600, "p" * 600, "c" * 600, "u" * 600)
    assert {len(text) for text in (owner.id, owner.uid, owner.name, owner.namespace, owner.container)} == {MAX_TEXT}
    assert len(replace(Owner("slurm_job", "1"), account="a" * 600).account) == MAX_TEXT


@pytest.mark.parametrize(
    ("owner", "program"),
    [
        (pod("ml", "train-0", "main"), "pod ml/train-0/main"),
        (replace(pod("ml", "web-1"), workload="web", workload_kind="Deployment"), "Deployment ml/web"),
        (replace(pod("ml", "web-1"), workload="web"), "pod ml/web"),
        (Owner("slurm_job", "4711"), "job 4711"),
        (Owner("slurm_job", "4711_7"), "job 4711"),
        (Owner("process", "12", name="python3", user="ann", user_id="1000"), "python3 of user ann"),
        (Owner("process", "12", name="python3", user_id="1000"), "python3 of user 1000"),
        (Owner("process", "12"), "process 12"),
    ],
)
def test_the_program_of_an_owner_is_the_same_over_restarts(owner: Owner, program: str) -> None:
    assert owner.program == program
