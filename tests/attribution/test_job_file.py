from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.attribution.job_file import parse_job_file
from pulsed.model.owner import Owner

OURS = """\
job_id=4711
array=4700_11
user=ann
uid=1001
account=lab
partition=gpu
cluster=c1
name=train big
start=1767225600
restarts=2
"""


@pytest.mark.parametrize(
    ("text", "owners"),
    [
        ("", ()),
        ("\n\n", ()),
        ("4711\n", (Owner("slurm_job", "4711"),)),
        ("4711 1001", (Owner("slurm_job", "4711", user_id="1001"),)),
        ("12\n11\n12\n", (Owner("slurm_job", "12"), Owner("slurm_job", "11"))),
        ("4700_11\r\n", (Owner("slurm_job", "4700_11"),)),
        ("job_id=1\nuser=ann\njob_id=2\n", (Owner("slurm_job", "1", user="ann"), Owner("slurm_job", "2"))),
        ("job_id=1\nstart=soon\naccount=\n", (Owner("slurm_job", "1"),)),
    ],
)
def test_all_forms(text: str, owners: tuple[Owner, ...]) -> None:
    assert parse_job_file(text) == (owners, 0)


def test_all_keys() -> None:
    (job,) = parse_job_file(OURS).owners
    assert job == Owner(
        "slurm_job",
        "4700_11",
        1767225600.0,
        user="ann",
        user_id="1001",
        account="lab",
        partition="gpu",
        cluster="c1",
        name="train big",
        labels=(("job_id", "4711"),),
    )


@pytest.mark.parametrize("text", ["4711 1001 gpu", "4711 ann", "<html>", "user=ann", "job_id=", "../../etc/passwd"])
def test_a_line_in_no_form_is_counted(text: str) -> None:
    assert parse_job_file(text) == ((), 1)


def test_a_bad_line_does_not_cost_the_others() -> None:
    assert parse_job_file("4711\n?\n4712") == ((Owner("slurm_job", "4711"), Owner("slurm_job", "4712")), 1)


@given(st.text())
def test_whatever_a_file_contains_it_is_read(text: str) -> None:
    owners, bad = parse_job_file(text)
    assert len({owner.key for owner in owners}) == len(owners)
    assert bad >= 0
