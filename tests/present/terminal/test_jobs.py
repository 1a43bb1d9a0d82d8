from __future__ import annotations

from pulsed.present.terminal.lists import jobs
from pulsed.present.terminal.view_state import ViewState
from tests.present.terminal.fleet_model import model, with_documents


def test_findings_that_are_not_judged_are_named_below_the_gpus_of_the_job() -> None:
    shown = model()
    (first,) = shown.daemons[0].documents["jobs"]["jobs"]
    job = {**first, "not_judged": [{"finding": "hang", "missing": "no DRAM_ACTIVE of GPU 1"}]}
    shown = with_documents(shown, jobs={"jobs": [job]}, processes={"processes": []})
    _, *rows, _ = jobs(shown, ViewState(view="work"), shown.gpus, 120, 24).lines
    assert rows[len(job["gpus"])].plain.strip() == "hang not evaluated: no DRAM_ACTIVE of GPU 1"


def test_jobs_with_the_most_idle_gpu_time_are_first_with_their_first_advice() -> None:
    shown = model()
    (first,) = shown.daemons[0].documents["jobs"]["jobs"]
    advice = [{"id": each, "evidence": "GPU 3", "text": each} for each in ("release it", "b")]
    worse = {**first, "owner": {**first["owner"], "id": "4712"}, "gpus": first["gpus"] * 2, "advice": advice}
    shown = with_documents(shown, jobs={"jobs": [first, worse]}, processes={"processes": []})
    rows = [row.plain for row in jobs(shown, ViewState(view="work"), shown.gpus, 120, 24).lines[1:-1]]
    assert [row.split()[1] for row in rows if row.startswith("job")] == ["4712"] * 6 + ["4711"] * 3
    assert [row.strip() for row in rows if not row.startswith("job")] == ["GPU 3: release it"]
