"""The application behind the front, asked without a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pulsed.model.clocks import Monotonic
from pulsed.model.target_store import TargetStore
from pulsed.model.tick import Tick
from pulsed.present.api.events import EventBroadcaster
from pulsed.present.api.history import History, HistoryShape
from pulsed.present.api.routing import Failure
from pulsed.present.api.sample_fields import DEFAULT_FIELDS
from tests.present.api.client import Answer, application, ask
from tests.present.boards import TIME, Gpu, gpu, mig, store_of, target, tick
from tests.support.documents import has_shape


class Known:
    """An application, what is on its board, and what was there before."""

    def __init__(self, *targets: Sequence[Gpu]) -> None:
        self.history, self.board = History(), store_of()
        for number, gpus in enumerate(targets):
            made = target(f"target {number}", self._tick(number, gpus))
            self.board.targets.append(made)
        self.app = application(self.board, self.history, EventBroadcaster(lambda: "here", max_subscribers=0))

    def goes_on(self, number: int, gpus: Sequence[Gpu]) -> None:
        """Another tick of a target."""
        self.board.targets[number].accept(self._tick(number, gpus, TIME + 1), Monotonic(101.0))

    async def get(self, path: str, method: str = "GET") -> Answer:
        return await ask(self.app, path, method)

    async def refused(self, path: str, status: int) -> str:
        """What an answer with an error says, which is all that is in it."""
        found, document, _ = await self.get(path)
        assert found == status, document
        message: str = Failure.model_validate(document, strict=True).model_dump()["error"]
        return message

    def _tick(self, number: int, gpus: Sequence[Gpu], time: float = TIME) -> Tick:
        made = tick(gpus, time)
        made = replace(made, raw=replace(made.raw, target=f"target {number}"))
        self.history.add(made)
        return made


async def test_history() -> None:
    known = Known([gpu(0, power_watts=700.5), gpu(1), mig(2, 7)])
    known.goes_on(0, [gpu(0), gpu(1)])
    status, document, headers = await known.get("/gpus/0/history")
    assert (status, headers["content-type"]) == (200, "application/json")
    assert has_shape(HistoryShape, document)
    assert (document["gpu"], document["uuid"], document["node"]) == ("0", "GPU-node1-0000", "node1")
    assert (document["interval_seconds"], document["seconds"]) == (1.0, 600.0)
    assert document["time"] == [TIME, TIME + 1]
    assert list(document["fields"]) == list(DEFAULT_FIELDS)

    _, document, _ = await known.get("/gpus/GPU-node1-0000/history?seconds=0.5&fields=raw_class,power_watts,raw_class")
    assert document["fields"] == {"raw_class": ["memory_bound"], "power_watts": [None]}
    assert document["time"] == [TIME + 1]
    assert document["seconds"] == 0.5
    _, document, _ = await known.get("/gpus/0/history?seconds=1e9")
    assert (len(document["time"]), document["seconds"]) == (2, 600.0)


async def test_the_history_of_a_gpu_that_is_gone_is_kept() -> None:
    known = Known([gpu(0), mig(2, 7, power_watts=5.0)])
    known.goes_on(0, [gpu(0)])
    assert "/gpus lists" in await known.refused("/gpus/2:7", 404)
    status, document, _ = await known.get("/gpus/2:7/history?fields=power_watts")
    assert status == 200
    assert (document["gpu"], document["mig_id"], document["fields"]) == ("2", "7", {"power_watts": [5.0]})


async def test_history_of_several_gpus_of_one_name() -> None:
    known = Known([gpu(0), gpu(1), mig(3, 7), mig(3, 8)], [gpu(0, "node2")])
    status, document, _ = await known.get("/gpus/0/history?node=node2")
    assert (status, document["uuid"]) == (200, "GPU-node2-0000")
    known.goes_on(0, [])
    known.goes_on(1, [])
    assert "?node= with one of node1, node2" in await known.refused("/gpus/0/history", 409)


async def test_a_stream_beyond_the_limit_is_answered_503() -> None:
    status, document, headers = await Known([gpu(0)]).get("/events")
    assert (status, headers["retry-after"]) == (503, "2")
    assert "events.max_subscribers" in document["error"]


async def test_every_path_with_parameters_tells_its_errors_as_they_are() -> None:
    _, document, _ = await Known([gpu(0)]).get("/openapi.json")
    paths = document["paths"]
    assert {"400", "404", "409"} <= set(paths["/gpus/{gpu}/history"]["get"]["responses"])
    assert {"200", "400", "503"} == set(paths["/events"]["get"]["responses"])
    assert list(paths["/events"]["get"]["responses"]["200"]["content"]) == ["text/event-stream"]
    assert not [path for path, item in paths.items() for each in item.values() if "422" in each["responses"]]
    assert "ValidationError" not in document["components"]["schemas"]


async def test_an_empty_board_has_no_history() -> None:
    known = Known()
    assert isinstance(known.board, TargetStore)
    assert "GPU '0' not found" in await known.refused("/gpus/0/history", 404)
