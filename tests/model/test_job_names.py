"""All names of a job or pod."""

from __future__ import annotations

import pytest

from pulsed.model.job_names import group_of, names_of_owner, part_of, without_step
from pulsed.model.owner import Owner, pod


@pytest.mark.parametrize(
    ("owner", "part", "group", "names"),
    [
        (Owner("slurm_job", "4711"), "", "", {"4711"}),
        (Owner("slurm_job", "500_1", labels=(("job_id", "501"),)), "500_1", "500", {"500_1", "501", "500"}),
        (Owner("slurm_job", "501", labels=(("array", "500_1"),)), "500_1", "500", {"500_1", "501", "500"}),
        (Owner("slurm_job", "701", labels=(("component", "700+1"),)), "700+1", "700", {"701", "700+1", "700"}),
        (
            pod("ml", "web_0", "main", "u-1"),
            "",
            "",
            {"ml/web_0/main", "u-1", "web_0", "ml/web_0", "pod:ml/web_0", "pod:ml/web_0/main"},
        ),
        (Owner("container", "12_3"), "", "", {"12_3"}),
    ],
)
def test_all_names_of_an_owner(owner: Owner, part: str, group: str, names: set[str]) -> None:
    assert (part_of(owner), group_of(owner), names_of_owner(owner)) == (part, group, names)


@pytest.mark.parametrize(
    ("name", "job"),
    [("4711.0", "4711"), ("500_1.batch", "500_1"), ("700+1.extern", "700+1"), ("4711", "4711"), ("web.1", "web.1")],
)
def test_a_step_is_of_its_job(name: str, job: str) -> None:
    assert without_step(name) == job
