from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.model.clocks import Unix
from pulsed.model.owner import Owner
from pulsed.owners.attribution.mapping_directory import parse_job_file

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
ARRAY_TASK = Owner(
    "slurm_job", "4700_11", Unix(1767225600.0), user="ann", user_id="1001", account="lab", partition="gpu",
    cluster="c1", name="train big", labels=(("job_id", "4711"),),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "owners", "bad_lines"),
    [
        ("", (), 0),
        ("\n\n", (), 0),
        ("4711\n", (Owner("slurm_job", "4711"),), 0),
        ("4711 1001", (Owner("slurm_job", "4711", user_id="1001"),), 0),
        ("12\n11\n12\n", (Owner("slurm_job", "12"), Owner("slurm_job", "11")), 0),
        ("4700_11\r\n", (Owner("slurm_job", "4700_11"),), 0),
        ("job_id=1\nuser=ann\njob_id=2\n", (Owner("slurm_job", "1", user="ann"), Owner("slurm_job", "2")), 0),
        ("job_id=1\nstart=soon\naccount=\n", (Owner("slurm_job", "1"),), 0),
        (OURS, (ARRAY_TASK,), 0),
        ("4711\n?\n4712", (Owner("slurm_job", "4711"), Owner("slurm_job", "4712")), 1),
        *((bad, (), 1) for bad in ("4711 1001 gpu", "4711 ann", "<html>", "user=ann", "job_id=", "../../etc/passwd")),
    ],
)
def test_every_form_is_read_and_other_lines_are_counted(text: str, owners: tuple[Owner, ...], bad_lines: int) -> None:
    assert parse_job_file(text)[:2] == (owners, bad_lines)


@given(st.text())
def test_whatever_a_file_contains_it_is_read(text: str) -> None:
    owners, bad, _ = parse_job_file(text)
    assert len({owner.key for owner in owners}) == len(owners)
    assert bad >= 0
