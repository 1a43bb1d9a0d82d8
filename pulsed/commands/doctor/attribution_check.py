"""One look at each attribution source: whether the owners of GPUs are known here, and what to do if not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pulsed.attribution.attribution import LABELS, READ_SECONDS
from pulsed.attribution.source import AttributionSource
from pulsed.commands.doctor.source_check import SourceCheck
from pulsed.errors import AttributionError


@dataclass(frozen=True, slots=True)
class AttributionCheck:
    """What a look at a source found.

    Attributes:
        source: its name.
        works: whether it can be read; False too where this host does not have it.
        devices: number of GPUs and MIG instances that have an owner.
        note: the error, or how to have the source; if it works, what else was found.
    """

    source: str
    works: bool
    devices: int = 0
    note: str = ""


async def check_attribution(
    sources: Iterable[AttributionSource], probes: Iterable[SourceCheck]
) -> Sequence[AttributionCheck]:
    """Look at the sources of this host once, and at the labels of the pages that were read."""
    owned = sum(bool(device.owners) for probe in probes if probe.tick for device in probe.tick.devices)
    note = (
        "" if owned else "no pod or job is on the pages; dcgm-exporter writes them with DCGM_EXPORTER_KUBERNETES=true"
    )
    return [*await asyncio.gather(*map(_check, sources)), AttributionCheck(LABELS, owned > 0, owned, note)]


async def _check(source: AttributionSource) -> AttributionCheck:
    try:
        claims = await asyncio.wait_for(source.read(), READ_SECONDS)
    except AttributionError as error:
        return AttributionCheck(source.name, False, note=str(error))
    except asyncio.TimeoutError:
        return AttributionCheck(source.name, False, note=f"it did not answer within {READ_SECONDS:.0f} s")
    finally:
        await source.close()
    if claims is None:
        return AttributionCheck(source.name, False, note=source.absence)
    return AttributionCheck(source.name, True, len(claims.owners))
