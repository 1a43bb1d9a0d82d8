"""The dialect of pulsed's own CSV: names and values are taken as they are."""

from __future__ import annotations

from pulsed.model.gpu import Entity
from pulsed.translate.translator import Translator
from pulsed.translate.units import INT32_BLANKS
from tests.support.ticks import anomalies_of, readings_of
from tests.translate.build import present, tick

GPU = {"node": "n1", "gpu": "3", "uuid": "GPU-a", "model": "NVIDIA H100 80GB HBM3"}


def test_identity() -> None:
    mig = {**GPU, "mig_id": "7", "mig_profile": "1g.10gb"}
    raw = tick([("time", mig, 1.0), ("time", GPU, 1.0), ("time", {"gpu": "0"}, 1.0)], "pulsed")
    first, second, third = Translator("here").translate(raw).devices
    assert first.entity == Entity("mig", "3", "GPU-a", "7", "1g.10gb", "n1")
    assert (second.entity, second.model, second.whole) == (Entity("gpu", "3", "GPU-a", node="n1"), GPU["model"], True)
    assert (third.entity, third.model) == (Entity("gpu", "0", node="here"), "")


def test_values_are_not_judged_again() -> None:
    values = {"power_watts": 0.0, "temperature_margin_celsius": -3.0, "energy_joules_total": min(INT32_BLANKS)}
    raw = tick([("time", GPU, 1.0), ("nothing_known", GPU, 1.0), *((n, GPU, v) for n, v in values.items())], "pulsed")
    canonical = Translator().translate(raw)
    assert (present(canonical.gpus[0].reading), anomalies_of(canonical)) == (values, {})


def test_each_gpu_has_its_own_values() -> None:
    raw = tick([("power_watts", {"gpu": gpu}, watts) for gpu, watts in (("0", 100.0), ("1", 200.0))], "pulsed")
    assert [reading.power_watts for reading in readings_of(Translator().translate(raw))] == [100.0, 200.0]


def test_a_size_needs_all_its_parts() -> None:
    """A column that is not in the file may have been left out by whoever exported it."""
    parts = {"memory_used_bytes": 10.0, "memory_free_bytes": 20.0}
    translated = Translator().translate(tick([(n, GPU, v) for n, v in parts.items()], "pulsed"))
    assert present(translated.gpus[0].reading) == parts
    parts["memory_reserved_bytes"] = 10.0
    translated = Translator().translate(tick([(n, GPU, v) for n, v in parts.items()], "pulsed"))
    assert present(translated.gpus[0].reading) == {**parts, "memory_bytes": 40.0, "memory_used_ratio": 0.25}


def test_a_vgpu_guest_is_told_as_on_a_page() -> None:
    licensed = [("vgpu_license_status", GPU, 1.0), ("gpu_utilization_ratio", GPU, 0.5)]
    anonymous = [(name, {"gpu": "0"}, value) for name, _, value in licensed]
    assert Translator().translate(tick(anonymous, "pulsed")).devices[0].guest
    assert (
        not Translator().translate(tick([*anonymous, ("power_watts", {"gpu": "0"}, 70.0)], "pulsed")).devices[0].guest
    )


def test_the_same_layout_gives_the_same_devices() -> None:
    translator = Translator()
    raw = tick([("time", GPU, 1.0), ("power_watts", GPU, None)], "pulsed")
    assert translator.translate(raw).devices == translator.translate(raw).devices
