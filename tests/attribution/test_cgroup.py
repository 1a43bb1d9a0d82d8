from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.attribution.processes import owner_of_cgroup

UID = "0a1b2c3d-0000-1111-2222-0123456789ab"
SYSTEMD = UID.replace("-", "_")


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        ("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n", ("slurm_job", "4711")),
        ("0::/system.slice/gpu07_slurmstepd.scope/job_4711\n", ("slurm_job", "4711")),
        ("5:cpuset:/slurm/uid_1000/job_4711/step_batch/task_0\n1:name=systemd:/\n", ("slurm_job", "4711")),
        ("9:memory:/slurm_gpu07/uid_1000/job_12/step_0\n", ("slurm_job", "12")),
        (f"4:memory:/kubepods/burstable/pod{UID}/0123abcd\n", ("pod", UID)),
        (f"0::/kubepods.slice/kubepods-pod{SYSTEMD}.slice/cri-containerd-0123.scope\n", ("pod", UID)),
        (
            f"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{SYSTEMD}.slice/crio-01.scope",
            ("pod", UID),
        ),
        (f"0::/system.slice/containerd.service/kubepods-burstable-pod{SYSTEMD}.slice:cri-containerd:01", ("pod", UID)),
        (f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{SYSTEMD}.slice/cri-1.scope", ("pod", UID)),
        (
            "0::/kubepods/burstable/pod0123456789abcdef0123456789abcdef/01\n",
            ("pod", "0123456789abcdef0123456789abcdef"),
        ),
        ("0::/user.slice/user-1000.slice/session-2.scope\n", None),
        ("0::/system.slice/slurmd.service\n", None),
        ("0::/system.slice/slurmstepd.scope/s5K1/step_0\n", None),
        ("0::/docker/0123\n", None),
        ("", None),
    ],
)
def test_every_known_form(text: str, owner: object) -> None:
    assert owner_of_cgroup(text) == owner


def test_a_group_within_that_of_a_job_does_not_change_the_job() -> None:
    text = "0::/system.slice/slurmstepd.scope/job_1/step_0/user/slurm/job_2"
    assert owner_of_cgroup(text) == ("slurm_job", "1")


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    owner_of_cgroup(text)
