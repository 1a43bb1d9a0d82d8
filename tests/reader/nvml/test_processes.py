from __future__ import annotations

import pytest

from pulsed.model.raw_tick import GpuProcess
from tests.reader.nvml.sessions import reading
from tests.support.nvml_standin import boards
from tests.support.nvml_standin.library import LoadedStandin

UUID = boards.uuid_of(0)


def listed(nvml: LoadedStandin, answers: boards.Answers) -> tuple[GpuProcess, ...] | None:
    nvml.gpus = [boards.hopper() | answers]
    nvml.write()
    with reading() as reader:
        reader.tick()
        return reader.processes


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (
            {"processes": f"41:{2**30}: 42::", "processes.graphics": f"41:{2**31}:", "processes.busy": "41:37 43:5"},
            [GpuProcess(41, "0", UUID, "", 2**31, 0.37), GpuProcess(42, "0", UUID)],
        ),
        ({"processes": "41:5:", "processes.busy": "41:4096"}, [GpuProcess(41, "0", UUID, "", 5)]),
        (
            {"processes": "41:5: 42:6:", "accounting": 1, "accounting.41": f"61:{2**33}"},
            [GpuProcess(41, "0", UUID, "", 5, None, 0.61, 2**33), GpuProcess(42, "0", UUID, "", 6)],
        ),
        (
            {"processes": " ".join(f"{pid}:{pid}:" for pid in range(1, 501))},
            [GpuProcess(pid, "0", UUID, "", pid) for pid in range(1, 501)],
        ),
    ],
    ids=["memory and activity", "activity that is not a share", "means and peaks of accounting mode", "many processes"],
)
def test_processes_have_what_the_driver_has(
    nvml: LoadedStandin, answers: boards.Answers, expected: list[GpuProcess]
) -> None:
    assert listed(nvml, answers) == tuple(expected)


def test_no_process_is_not_the_same_as_no_list(nvml: LoadedStandin) -> None:
    assert listed(nvml, {}) == ()
    nvml.gpus = [boards.hopper() | {"nvmlDeviceGetComputeRunningProcesses_v3.error": 999}]
    nvml.write()
    with reading() as reader:
        reader.tick()
        assert reader.processes is None
        del nvml.gpus[0]["nvmlDeviceGetComputeRunningProcesses_v3.error"]
        nvml.write()
        reader.tick()
        assert reader.processes is None, "it is listed again after the slow interval"
        reader.tick(10.0)
        assert reader.processes == ()


def test_a_list_stays_the_same_object_until_the_next(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.hopper() | {"processes": "41:5:"}]
    nvml.write()
    with reading() as reader:
        reader.tick()
        before = reader.processes
        reader.tick()
        assert reader.processes is before
        nvml.gpus[0]["processes"] = "42:5:"
        nvml.write()
        reader.tick(10.0)
        assert [process.pid for process in reader.processes or ()] == [42]


def test_processes_of_mig_instances_by_their_board_or_one_by_one(nvml: LoadedStandin) -> None:
    board = boards.split(boards.hopper(), [(1, "1g.10gb"), (2, "1g.10gb")])
    nvml.gpus = [board | {"processes": "41:7:1 42:8:2", "mig1.processes": "41:7:", "mig2.processes": "42:8:"}]
    nvml.write()
    expected = (GpuProcess(41, "0", UUID, "1", 7), GpuProcess(42, "0", UUID, "2", 8))
    with reading() as reader:
        reader.tick()
        assert reader.processes == expected
        nvml.write(**{"gpu0.nvmlDeviceGetComputeRunningProcesses_v3.error": 4})  # only root may, also with mig1, mig2
        nvml.gpus[0]["processes"] = "none"
        nvml.write()
        reader.tick(10.0)
        assert reader.processes == expected


def test_a_lost_gpu_has_no_processes_and_the_others_have_theirs(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.hopper(0) | {"processes": "41:5:"}, boards.hopper(1) | {"processes": "42:5:"}]
    nvml.write()
    with reading() as reader:
        reader.tick()
        nvml.gpus[0]["error"] = 15
        nvml.write()
        reader.tick(10.0)
        reader.tick()
        assert [process.pid for process in reader.processes or ()] == [42]
