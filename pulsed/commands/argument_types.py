"""Functions that parse arguments of the command line; an argument that is not valid raises ArgumentTypeError."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pulsed.translate.fields import ExporterVersion


def host_list(text: str) -> list[str]:
    """Return the hosts of a list such as `gpu[01-04]`."""
    from pulsed.hostlist import expanded_hosts

    return expanded_hosts(text)


def time_span(text: str) -> float:
    """Return the seconds of a duration such as `60s`."""
    from pulsed.durations import duration

    try:
        return duration(float(text) if text.replace(".", "", 1).isdecimal() else text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}; give a duration such as 60s or 1h30m") from None


def version_tag(text: str) -> ExporterVersion:
    """Return the version of a tag."""
    from pulsed.translate.exporter_versions import exporter_version

    try:
        return exporter_version(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def positive_number(text: str) -> int:
    """Return a whole number above 0."""
    if not text.isdecimal() or (number := int(text)) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return number


def label_names(text: str) -> tuple[str, ...]:
    """Return names of labels from a text with commas."""
    names = tuple(text.split(","))
    if not all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) for name in names):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of labels; give names with commas, such as UUID,gpu")
    return names


def object_name(text: str) -> str:
    """Return a name of a Kubernetes object."""
    if not re.fullmatch(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a name of Kubernetes; use lower case letters, digits, - and ."
        )
    return text


def label_pairs(text: str) -> dict[str, str]:
    """Return labels from `name=value,name=value`."""
    pairs = dict(pair.partition("=")[::2] for pair in text.split(","))
    if not all(pairs) or not all(pairs.values()):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form name=value,name=value")
    return pairs
