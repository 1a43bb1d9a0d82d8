"""The fake API server answers as a real one did, whose answers are in `recorded/`.

With UPDATE_GOLDEN, the test of the real one writes them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.support.kubernetes.exchanges import answers
from tests.support.kubernetes.fake_api_server import FakeApiServer
from tests.support.kubernetes.real_api_server import RealApiServer

RECORDED = Path(__file__).with_name("recorded") / "answers.json"


def recorded() -> dict[str, object]:
    found: dict[str, object] = json.loads(RECORDED.read_text())
    return found


def as_json(found: object) -> object:
    return json.loads(json.dumps(found))


def test_the_fake_answers_as_the_real_one_did(tmp_path: Path) -> None:
    fake = FakeApiServer(tmp_path)
    with fake.running() as fake.url:
        found = as_json(dict(answers(fake, watch_seconds=3)))
    assert found == recorded()


def test_the_real_one_answers_as_recorded(real: RealApiServer) -> None:
    found = as_json(dict(answers(real, watch_seconds=5)))
    if "UPDATE_GOLDEN" in os.environ:
        RECORDED.parent.mkdir(exist_ok=True)
        RECORDED.write_text(json.dumps(found, indent=1) + "\n")
    assert found == recorded()
