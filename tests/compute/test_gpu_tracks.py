"""Identity of GPUs over ticks."""

from __future__ import annotations

from dataclasses import replace

from pulsed.model.gpu import Device, Entity
from tests.compute.streams import GPU, PART, WITHOUT_UUID, TrackedTarget


def test_a_gpu_whose_uuid_becomes_known_is_the_same() -> None:
    target = TrackedTarget()
    track = target.track(WITHOUT_UUID)
    before = track.key
    assert target.track(GPU) is track
    assert (track.device, track.other_keys) == (GPU, (before,))
    assert target.track(WITHOUT_UUID) is track


def test_another_gpu_at_the_same_index_is_another_gpu() -> None:
    target = TrackedTarget()
    track = target.track(GPU)
    swapped = target.track(Device(Entity("gpu", "0", "GPU-9")))
    assert swapped is not track
    assert target.track(GPU) is track


def test_a_gpu_whose_index_changes_is_the_same() -> None:
    target = TrackedTarget()
    track = target.track(GPU)
    assert target.track(Device(Entity("gpu", "5", "GPU-0"))) is track


def test_keys_of_a_device() -> None:
    unprofiled = replace(PART, entity=replace(PART.entity, mig_profile=""))
    keys = {
        device: (track.key, *track.other_keys)
        for device in (GPU, WITHOUT_UUID, PART, unprofiled)
        for track in [TrackedTarget().track(device)]
    }
    assert keys == {
        GPU: ("|GPU-0",),
        WITHOUT_UUID: ("|gpu 0",),
        PART: ("|GPU-0|mig|1|1g.10gb", "|GPU-0|mig|1"),
        unprofiled: ("|GPU-0|mig|1",),
    }


def test_an_instance_of_another_profile_is_another_instance() -> None:
    target = TrackedTarget()
    track = target.track(PART)
    other = replace(PART, entity=replace(PART.entity, mig_profile="2g.20gb"))
    assert target.track(other) is not track
    assert target.track(PART) is track


def test_devices_that_the_source_does_not_distinguish_have_tracks_of_their_own() -> None:
    target = TrackedTarget()
    first = target.tick(GPU, GPU, GPU).states
    assert len({track.key for track in first}) == 3
    assert target.tick(GPU, GPU, GPU).states == first
    assert {track.decision.kind for track in first} == {"next"}
