from __future__ import annotations

from pulsed.model.canonical_tick import Device, Entity
from pulsed.present.gpu_keys import key_of, label_text, repeated


def key(gpu: str, uuid: str = "", mig_id: str = "", node: str = "") -> tuple[str, str, str, str]:
    return key_of(Device(Entity("gpu", gpu, uuid, mig_id, node=node)), "here")


def test_a_uuid_tells_gpus_apart_and_the_index_where_there_is_none() -> None:
    assert key("0", "GPU-a") == key("1", "GPU-a")
    assert key("0") != key("1")
    assert key("0", "GPU-a") != key("0", "GPU-a", "7")
    assert key("0", "GPU-a", node="there") != key("0", "GPU-a")
    assert key("0", "GPU-a", node="here") == key("0", "GPU-a")


def test_the_first_claim_counts_also_within_one_target() -> None:
    a, b, c = key("0"), key("1"), key("2")
    assert repeated([[a], [b, a], [c, c], []]) == [frozenset(), {1}, {1}, frozenset()]


def test_every_series_names_its_node() -> None:
    whole = Device(Entity("gpu", "0", "GPU-a", node="n"))
    assert label_text(whole, "here") == 'node="n",gpu="0",uuid="GPU-a"'
    instance = Device(Entity("mig", "0", "GPU-a", "7", "1g.10gb"))
    assert label_text(instance, "here") == 'node="here",gpu="0",uuid="GPU-a",mig_id="7",mig_profile="1g.10gb"'
