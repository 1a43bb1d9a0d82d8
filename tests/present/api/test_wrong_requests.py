"""Requests that cannot be answered: each is refused with what is wrong, and what to do."""

from __future__ import annotations

import pytest

from tests.present.api.test_application import Known
from tests.present.boards import gpu, mig

WRONG = {
    400: [
        ("/gpus?view=summary&fields=sm_activ", "'sm_activ' is not a field. Did you mean sm_active_ratio?"),
        ("/gpus?view=summary&fields=", "'' is not a field"),
        ("/gpus?view=short", "view: Input should be 'full' or 'summary'"),
        ("/gpus/0/history?seconds=0", "seconds: Input should be greater than 0"),
        ("/gpus/0/history?seconds=-1", "seconds: Input should be greater than 0"),
        ("/gpus/0/history?seconds=soon", "seconds: Input should be a valid number"),
        ("/gpus/0/history?seconds=nan", "seconds: Input should be"),
        ("/gpus/0/history?seconds=inf", "seconds: Input should be a finite number"),
        ("/gpus/0/history?seconds=", "seconds: Input should be a valid number"),
        ("/gpus/0/history?fields=sm_activ", "'sm_activ' is not a field; did you mean sm_active_ratio?"),
        ("/gpus/0/history?fields=power_watts,zzzzzz", "'zzzzzz' is not a field; allowed: workload_class, "),
        ("/gpus/0/history?fields=ecc_mode", "'ecc_mode' is not kept; add it to history.fields"),
        ("/gpus/0/history?fields=", "'' is not a field"),
        ("/history?points=1", "points: Input should be greater"),
        ("/history?points=2001", "points: Input should be less"),
        ("/history?seconds=0.5", "seconds: Input should be greater"),
        ("/history?fields=sm_activ", "did you mean sm_active_ratio?"),
        ("/events?types=tick,tock", "'tock' is not an event; allowed: tick, workload_class, health"),
        ("/events?types=", "'' is not an event"),
        ("/events/recent?types=tick", "types"),
        ("/events/recent?types=", "types"),
        ("/events/recent?limit=0", "limit"),
        ("/events/recent?limit=1000000", "limit"),
        ("/events/recent?since=x", "since"),
        ("/events/recent?since=nan", "since"),
        ("/jobs?kind=job", "kind: Input should be 'slurm_job', 'pod'"),
        ("/jobs?state=done", "state: String should match"),
    ],
    404: [
        ("/gpus/9", "GPU '9' not found; /gpus lists"),
        ("/gpus/9/history", "/gpus lists"),
        ("/gpus/1/history?node=node2", "/gpus lists"),
        ("/history?gpu=1,9", "GPU '9' not found"),
    ],
    409: [
        ("/gpus/0", "?node= with one of node1, node2"),
        ("/gpus/0/history", "?node= with one of node1, node2"),
        ("/gpus/3/history", "3:7, 3:8"),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize(("path", "message", "status"), [(*row, status) for status in WRONG for row in WRONG[status]])
async def test_a_wrong_request_is_refused_with_the_reason(path: str, message: str, status: int) -> None:
    known = Known([gpu(0), gpu(1), mig(3, 7), mig(3, 8)], [gpu(0, "node2")])
    assert message.lower() in (await known.refused(path, status)).lower()


async def test_another_method_names_those_that_are_allowed() -> None:
    status, _, headers = await Known([gpu(0)]).get("/gpus", "PUT")
    assert (status, headers["allow"]) == (405, "GET, HEAD")
