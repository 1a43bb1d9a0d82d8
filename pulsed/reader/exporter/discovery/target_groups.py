"""Groups of targets as Prometheus' service discovery has them: parsed, and as the URLs to scrape with their labels."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode, urlsplit

from pulsed.config.settings import is_text
from pulsed.config.yaml import BadYaml, YamlText
from pulsed.durations import duration
from pulsed.errors import TargetListError
from pulsed.http.credentials import masked
from pulsed.model.gpu import LABEL_NAME, RESERVED_LABELS

MAX_LABELS, MAX_LABEL_LENGTH, MAX_SETTING_LENGTH = 32, 256, 2048
"""Limits of a group: number and length of its labels, which all series of its GPUs have, and of those with `__`."""

Labels = tuple[tuple[str, str], ...]

_LABEL = re.compile(LABEL_NAME)
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_PARAMETER = "__param_"


@dataclass(frozen=True, slots=True)
class TargetGroup:
    """Targets with common labels.

    Attributes:
        targets: `host:port`.
        labels: by name; those that begin with `__` configure the scrape, and are not labels of series.
    """

    targets: Sequence[str]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ListedTarget:
    """A target of a list.

    Attributes:
        address: host and port.
        url: of its page.
        labels: of its series, sorted.
        interval: seconds between two scrapes; None: as configured. The same for `timeout`, of a scrape.
    """

    address: str
    url: str
    labels: Labels = ()
    interval: float | None = None
    timeout: float | None = None


def parse_json(text: bytes, origin: str) -> Sequence[TargetGroup]:
    """Parse a list in JSON. Raises `TargetListError`."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refusal(origin, f"not valid JSON: {error}") from None
    return _groups(document, origin)


def parse_yaml(text: bytes, origin: str) -> Sequence[TargetGroup]:
    """Parse a list in YAML; duplicate keys are errors. Raises `TargetListError`."""
    try:
        yaml = YamlText(text.decode("utf-8-sig"), origin, lambda path: "text")
        document = yaml.read().plain
    except (BadYaml, UnicodeDecodeError) as error:
        raise _refusal(origin, str(error).removeprefix(f"{origin}: ")) from None
    if yaml.problems:
        raise _refusal(origin, yaml.problems[0])
    return _groups([] if document is None else document, origin)


def _groups(document: object, origin: str) -> Sequence[TargetGroup]:
    if not isinstance(document, list):
        raise _refusal(origin, "not a list of groups")
    groups = []
    for number, group in enumerate(document):
        if not isinstance(group, dict) or not group.keys() <= {"targets", "labels"}:
            raise _refusal(origin, f"group {number} has other keys than targets and labels")
        targets, labels = group.get("targets") or [], group.get("labels") or {}
        if not isinstance(targets, list) or not all(map(is_text, targets)):
            raise _refusal(origin, f"targets of group {number} are not a list of texts")
        if not isinstance(labels, dict) or not all(map(is_text, labels.values())):
            raise _refusal(origin, f"labels of group {number} are not texts by name")
        if sum(not name.startswith("__") for name in labels) > MAX_LABELS:
            raise _refusal(origin, f"group {number} has more than {MAX_LABELS} labels")
        if long := next((name for name, text in labels.items() if len(text) > _max_length(name)), ""):
            raise _refusal(origin, f"the label {long[:80]} of group {number} has over {_max_length(long)} characters")
        if wrong := next((name for name in labels if not _LABEL.fullmatch(name)), ""):
            raise _refusal(origin, f"group {number} has the label {wrong[:80]!r}, which is not a name of a label")
        groups.append(TargetGroup(targets, labels))
    return groups


def _max_length(name: str) -> int:
    return MAX_SETTING_LENGTH if name.startswith("__") else MAX_LABEL_LENGTH


def listed_targets(groups: Sequence[TargetGroup], problems: list[str]) -> Iterator[ListedTarget]:
    """Yield the targets of groups.

    Args:
        problems: gets what cannot be used: a target, or a label that pulsed's own series have.
    """
    for group in groups:
        how = {name: value for name, value in group.labels.items() if name.startswith("__")}
        own = {name: value for name, value in group.labels.items() if name not in how and value}
        if reserved := sorted(own.keys() & RESERVED_LABELS):
            problems.append(f"the labels {', '.join(reserved)} of a group are left out: series of GPUs have their own")
        labels = tuple(sorted((name, value) for name, value in own.items() if name not in RESERVED_LABELS))
        try:
            interval, timeout = _seconds(how, "__scrape_interval__", 1.0), _seconds(how, "__scrape_timeout__")
            scheme = how.get("__scheme__") or "http"
            if scheme not in ("http", "https"):
                raise ValueError(f"the label __scheme__ is {scheme[:20]!r}; allowed: http, https")
        except ValueError as error:
            problems.append(f"a group of {len(group.targets)} targets is left out: {error}")
            continue
        parameters = {name.removeprefix(_PARAMETER): text for name, text in how.items() if name.startswith(_PARAMETER)}
        path = quote(how.get("__metrics_path__") or "/metrics", safe="/?=&%,")
        if not path.startswith("/"):
            path = f"/{path}"
        if parameters:
            path += ("&" if "?" in path else "?") + urlencode(parameters)
        for address in group.targets:
            if _is_address(address):
                yield ListedTarget(address, f"{scheme}://{address}{path}", labels, interval, timeout)
            else:
                problems.append(f"the target {masked(address)[:80]!r} is left out: it is not host:port")


def _is_address(address: str) -> bool:
    try:
        return _ADDRESS.fullmatch(address) is not None and urlsplit(f"http://{address}").port != 0
    except ValueError:
        return False


def _seconds(labels: Mapping[str, str], name: str, least: float = 0.001) -> float | None:
    if not (text := labels.get(name)):
        return None
    try:
        seconds = duration(text)
    except ValueError:
        seconds = 0.0
    if seconds < least:
        raise ValueError(f"the label {name} is {text[:20]!r}; allowed: durations from {least:g} s")
    return seconds


def _refusal(origin: str, problem: str) -> TargetListError:
    return TargetListError(
        f"{origin}: {problem}", "Write a list such as [{targets: [gpu-1:9400], labels: {rack: r1}}], as for Prometheus"
    )
