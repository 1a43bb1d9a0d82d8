"""Versions of dcgm-exporter, and which of them accept a field: an exporter does not start with an unknown one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from pulsed.model.raw_tick import Layout
from pulsed.translate.fields import AMBIGUOUS_NAME, BY_NAME, FIRST_BASE_UNIT_ID, DcgmField


class ExporterVersion(NamedTuple):
    """A version of dcgm-exporter: `4.5.2` of the image tag `4.4.1-4.5.2-ubuntu22.04`, behind the version of DCGM."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return ".".join(map(str, self))


CLASSIC = ExporterVersion(4, 5, 2)
"""The newest version whose list of fields was determined by trying all of them (netdata, DCGM 4.4.1)."""

NEWEST = ExporterVersion(4, 9, 0)

ANY = ExporterVersion(2, 0, 0)
"""Older than every version that matters here."""

_BASE_UNITS = ExporterVersion(4, 9, 0)
_NEW_NAMES = _LOWER_CASE_HOSTNAME = ExporterVersion(4, 8, 3)
_LAST_WITH_HOSTNAME = ExporterVersion(4, 8, 2)

_DCGM_2_4 = ExporterVersion(2, 6, 0)
_DCGM_3_0 = ExporterVersion(3, 1, 0)
_DCGM_3_3 = _DCGM_4_0 = ExporterVersion(4, 0, 0)
_DCGM_4_1 = ExporterVersion(4, 1, 0)
_DCGM_4_6 = ExporterVersion(4, 8, 4)

# The version of DCGM with which a field appeared, and for it an exporter that certainly has it: the exporter takes
# names from the table of go-dcgm, which follows DCGM's headers with some delay.
_SINCE: Mapping[ExporterVersion, tuple[int, ...]] = {
    _DCGM_2_4: (74, 253, 254, 1013, 1014),
    _DCGM_3_0: (1015, 1016, *range(1017, 1034)),
    _DCGM_3_3: (157, *range(385, 390), 94, 170, 171, 497, 498, 499, 1034, 1201, 1203, 1206, *range(1211, 1215)),
    _DCGM_4_1: (153, 342, 343, 344, 345, 843, 897, *range(1076, 1080)),
    CLASSIC: (346, *range(1080, 1084), 1216, 1218, *range(1420, 1425), 1432),
    _DCGM_4_6: (174, 175, 1091, 1092, 1501, 1507, 1523),
}
_SINCE_BY_ID = {number: version for version, ids in _SINCE.items() for number in ids}

_CLOCKS_EVENT_REASONS = 112
_BEFORE_DCGM_4 = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"

_TAG = re.compile(r"(?:v?\d+\.\d+\.\d+-)?v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:-[a-z].*)?")


def exporter_version(text: str) -> ExporterVersion:
    """Parse a version, or the tag of an image with it. Raises `ValueError`."""
    found = _TAG.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not a version of dcgm-exporter; give 4.5.2, or the tag of its image")
    return ExporterVersion(int(found[1]), int(found[2]), int(found[3]))


def first_version(field: DcgmField) -> ExporterVersion:
    """Return the first version that certainly accepts a field."""
    return _BASE_UNITS if field.id >= FIRST_BASE_UNIT_ID else _SINCE_BY_ID.get(field.id, ANY)


def name_for(field: DcgmField, oldest: ExporterVersion, newest: ExporterVersion) -> str | None:
    """Return a name of a field that all versions from `oldest` to `newest` accept; None if there is none."""
    if first_version(field) > oldest:
        return None
    if field.id == _CLOCKS_EVENT_REASONS and oldest < _DCGM_4_0:
        return _BEFORE_DCGM_4 if newest < _DCGM_4_0 else None
    return field.names[0]


def versions_of(layout: Layout) -> tuple[ExporterVersion, ExporterVersion] | None:
    """Return the oldest and the newest version of dcgm-exporter that can have made a page; None if none can."""
    rows = [series for series in layout.series if series.name in BY_NAME and series.name != AMBIGUOUS_NAME]
    if not rows:
        return None
    oldest = [ANY]
    newest = NEWEST
    for series in rows:
        field, labels = BY_NAME[series.name][0], dict(series.labels)
        oldest.append(first_version(field))
        if series.name.startswith("DCGM_") and series.name not in (field.names[0], _BEFORE_DCGM_4):
            oldest.append(_NEW_NAMES)
        if "nvlink" not in labels and "hostname" in labels:  # dcgm-exporter#655; rows about links had it before
            oldest.append(_LOWER_CASE_HOSTNAME)
        elif "Hostname" in labels:
            newest = _LAST_WITH_HOSTNAME
        if "pci_bus_id" in labels:  # dcgm-exporter#326
            oldest.append(ExporterVersion(3, 5, 0))
        if "err_code" in labels:  # dcgm-exporter#309
            oldest.append(ExporterVersion(3, 4, 2))
    return max(oldest), max(newest, *oldest)


def in_words(oldest: ExporterVersion, newest: ExporterVersion) -> str:
    """Return a range of versions in words."""
    if oldest == newest:
        return str(oldest)
    if newest == NEWEST:
        return f"{oldest} or newer" if oldest > ANY else "of an unknown version"
    return f"{oldest} to {newest}" if oldest > ANY else f"{newest} or older"
