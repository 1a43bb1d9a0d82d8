"""Versions of dcgm-exporter, and which of them accept a field: an exporter does not start with an unknown one."""

from __future__ import annotations

import re

from pulsed.model.raw_tick import Layout
from pulsed.translate.fields import AMBIGUOUS_NAME, BY_NAME, DcgmField, ExporterVersion

CLASSIC = ExporterVersion(4, 5, 2)
"""The newest version whose list of fields was determined by trying all of them (netdata, DCGM 4.4.1)."""

NEWEST = ExporterVersion(4, 9, 0)

ANY = ExporterVersion(2, 0, 0)
"""Older than every version that matters here."""

_NEW_NAMES = _LOWER_CASE_HOSTNAME = ExporterVersion(4, 8, 3)
_LAST_WITH_HOSTNAME = ExporterVersion(4, 8, 2)

_DCGM_4_0 = ExporterVersion(4, 0, 0)

_CLOCKS_EVENT_REASONS = 112
_BEFORE_DCGM_4 = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"

_TAG = re.compile(r"(?:v?\d+\.\d+\.\d+-)?v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:-[a-z].*)?")


def exporter_version(text: str) -> ExporterVersion:
    """Parse a version, or the tag of an image with it. Raises `ValueError`."""
    found = _TAG.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not a version of dcgm-exporter; give 4.5.2, or the tag of its image")
    return ExporterVersion(int(found[1]), int(found[2]), int(found[3]))


def name_for(field: DcgmField, oldest: ExporterVersion, newest: ExporterVersion) -> str | None:
    """Return a name of a field that all versions from `oldest` to `newest` accept; None if there is none."""
    if field.since > oldest:
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
        oldest.append(field.since)
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
