from __future__ import annotations

from dataclasses import replace

from pulsed.present.terminal.lists import jobs
from pulsed.present.terminal.view_state import ViewState
from tests.present.terminal.fleet_model import model


def test_findings_that_are_not_judged_are_named_below_the_gpus_of_the_job() -> None:
    shown = model()
    (daemon, *_) = shown.daemons
    job = {**daemon.jobs[0], "not_judged": [{"finding": "hang", "missing": "no DRAM_ACTIVE of GPU 1"}]}
    shown = replace(shown, daemons=(replace(daemon, jobs=(job,), processes=None),))
    _, *rows, _ = jobs(shown, ViewState(view="job"), shown.gpus, 120, 24)
    assert rows[len(job["gpus"])].plain.strip() == "hang not judged: no DRAM_ACTIVE of GPU 1"
