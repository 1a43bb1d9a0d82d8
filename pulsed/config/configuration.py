"""The whole configuration: the settings of all layers as one frozen tree, loaded from flags, environment and a file.

docs/configuration.md and config.example.yaml are generated from it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.settings import ComputeSettings
from pulsed.config.removed import replacement
from pulsed.config.schema import STARS, Schema, files_with_secrets, shown_settings, without_effect
from pulsed.config.settings import Kind, Problem, Settings, setting
from pulsed.config.values import Count, FileName, HttpPath, Switch, Text
from pulsed.config.yaml import BadYaml, LocatedValue, YamlText
from pulsed.errors import UsageError, nearest
from pulsed.host.settings import HostSettings
from pulsed.kubernetes.settings import KubernetesSettings
from pulsed.log import LogSettings
from pulsed.model.gpu_selection import parse
from pulsed.owners.exemptions import FindingSettings
from pulsed.owners.report.job_numbers import Prices
from pulsed.owners.settings import AccountsSettings, AttributionSettings
from pulsed.present.exposition.page import PageSettings
from pulsed.present.notification import NotifySettings
from pulsed.present.settings import EventsSettings, HistorySettings, PublishSettings
from pulsed.reader.settings import SourceSettings
from pulsed.regular_file import why_not_writable
from pulsed.server.settings import Addresses, WebServerSettings

log = logging.getLogger(__name__)


def _gpu_list(value: str) -> str:
    """Return a selection of GPUs."""
    try:
        parse(value)
    except UsageError:
        raise ValueError("names no GPUs") from None
    return value


GpuList = Annotated[
    str,
    Kind("gpus", "indexes (0,2-3), UUIDs or their beginnings, GPU:instance (0:7), all or none", _gpu_list, "text"),
]


@dataclass(frozen=True, slots=True)
class Config(Settings):
    """The whole configuration.

    Attributes:
        unused: a line for each key that is given and has no effect together with the others.
    """

    listen: Addresses = setting(
        (":9401",), "Addresses for HTTP. Without a host: all interfaces. Port 0: any free port."
    )
    telemetry_path: HttpPath = setting("/metrics", "Path of the metrics page.")
    max_requests: Count = setting(40, "Concurrent requests of the metrics page; more get 503. 0: no limit.")
    enable_lifecycle: Switch = setting(
        False, "Allow `POST /-/reload` and `POST /-/forget`. SIGHUP and file changes always reload."
    )
    state_dir: FileName | None = setting(
        None,
        "Folder for state that survives a restart, of one daemon only. Unset: nothing is kept.",
        example="/var/lib/pulsed",
    )
    node: Text | None = setting(None, "Name of this host. Unset: its host name.", example="gpu-node-1")
    gpus: GpuList | None = setting(
        None,
        "GPUs to show. Unset: all; `pulsed snapshot` and `export` then follow CUDA_VISIBLE_DEVICES, "
        "NVIDIA_VISIBLE_DEVICES, SLURM_STEP_GPUS or SLURM_JOB_GPUS.",
        example="0,2-3",
    )
    web: WebServerSettings = setting(WebServerSettings(), "HTTP access and its limits.")
    log: LogSettings = setting(LogSettings(), "Log on standard error.")
    source: SourceSettings = setting(SourceSettings(), "Where readings come from.")
    compute: ComputeSettings = setting(ComputeSettings(), "Derived values.")
    health: HealthSettings = setting(HealthSettings(), "Health checks (docs/health.md).")
    host: HostSettings = setting(HostSettings(), "This host, apart from the samples of its GPUs.")
    kubernetes: KubernetesSettings = setting(KubernetesSettings(), "The Kubernetes API.")
    attribution: AttributionSettings = setting(AttributionSettings(), "Owners of the GPUs.")
    accounts: AccountsSettings = setting(AccountsSettings(), "Accounts of owners that have ended, in `state_dir`.")
    findings: FindingSettings = setting(FindingSettings(), "Findings and advice about the work of owners.")
    notify: NotifySettings = setting(NotifySettings(), "Notifications of the owners of GPUs about findings.")
    prices: Prices = setting(Prices(), "Prices of GPU time and energy.")
    publish: PublishSettings = setting(PublishSettings(), "Published series.")
    history: HistorySettings = setting(HistorySettings(), "Recent samples in memory, for `/gpus/{gpu}/history`.")
    events: EventsSettings = setting(EventsSettings(), "Server-sent events, `/events`.")

    unused: tuple[str, ...] = field(default=(), compare=False)

    def without_effect(self) -> Iterator[Problem]:
        """Yield keys for another way to listen, or for another kind of source."""
        if self.web.systemd_socket:
            yield "listen", "web.systemd_socket replaces it"
        if not self.state_dir:
            yield "accounts", "it needs state_dir"

    def log_unused(self) -> None:
        """Log a warning for each key that has no effect."""
        for line in self.unused:
            log.warning(line)

    def unusable(self) -> Iterator[Problem]:
        """Yield a folder for state in which files cannot be made."""
        if self.state_dir and (reason := why_not_writable(self.state_dir)):
            yield "state_dir", f"{reason}; name a folder that pulsed's user may write to"

    def compute_settings(self) -> ComputeSettings:
        """Return the settings of Compute: its section, with the one of health."""
        return replace(self.compute, health=self.health)

    def page_settings(self) -> PageSettings:
        """Return the settings of the metrics page."""
        return self.publish.page(self.compute.saturation.practical_peaks())

    def secret_files(self, file: Path) -> Iterator[Path]:
        """Return the files with secrets: those that keys name, and the configuration file itself if it has some."""
        return files_with_secrets(self, file)

    def masked(self) -> dict[str, object]:
        """Return all settings as JSON, for everybody to see: secrets and logins in URLs are replaced by stars.

        Receivers are shown by scheme and host, and by program: paths and arguments may be secret.
        """
        notify = replace(
            self.notify,
            exec=self.notify.exec[:1] + (STARS,) * (len(self.notify.exec) > 1),
            webhook=replace(self.notify.webhook, url=_place(self.notify.webhook.url)),
        )
        otlp = replace(self.publish.otlp, url=_place(self.publish.otlp.url))
        return shown_settings(replace(self, notify=notify, publish=replace(self.publish, otlp=otlp)))


@dataclass(slots=True)
class ActiveConfig:
    """The configuration in force, for parts that read a key when they use it; a reload replaces it."""

    config: Config


def _place(url: str | None) -> str | None:
    """Return scheme and host of a URL."""
    parts = urlsplit(url or "")
    return None if url is None else f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/{STARS}"


_SCHEMA = Schema(Config, "listen: :9401")

_OTHER_NAMES = {
    "attribution.kubernetes.enabled": "attribution.workloads.enabled",
    "source.exporter.max_gpus": "source.max_gpus",
}
"""Second names of keys, which other programs write."""

FILE_VARIABLE = "PULSED_CONFIG_FILE"
PREFIX = "PULSED_"

# Kubernetes sets such variables for the Services of a namespace in every container, even for a Service `pulsed`.
_SERVICE_LINK = re.compile(
    r"PULSED_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_SERVICE_PORT = re.compile(r"PULSED_(\w+_)?PORT")  # `tcp://10.0.0.1:9401`; a bare 9401 is a mistake


def load(
    file: Path | None,
    overrides: Sequence[str],
    environment: Mapping[str, str],
    flags: Mapping[str, tuple[str, object]] | None = None,
) -> Config:
    """Return the configuration: flags over `--set` over environment over file over defaults.

    Args:
        file: the YAML file; None: the one that the environment names, if any.
        overrides: the values of `--set`, each `key.path=value`, the value in YAML; the last one of a key counts.
        environment: all variables of the process; those that do not begin with `PULSED_` are left alone.
        flags: by key the flag of its own, for messages, and the value: a text as given, a list of such, or a switch.

    Raises:
        ConfigError: with all problems, one per line: place, key, given value, and allowed values.
    """
    problems: list[str] = []
    document = LocatedValue({}, "the configuration")
    file = file_of(file, environment)
    for layer in (
        *([_SCHEMA.read(file, problems)] if file else []),
        *_environment(environment, problems),
        *_overrides(overrides, problems),
        *_flags(flags or {}, problems),
    ):
        document = _over(document, _with_first_names(layer))
    return _with_unused(_SCHEMA.validate(document, problems), document)


def _with_unused(config: Config, document: LocatedValue) -> Config:
    return replace(config, unused=tuple(without_effect(config, document)))


def file_of(file: Path | None, environment: Mapping[str, str]) -> Path | None:
    """Return the configuration file: the given one, or by default the one that the environment names."""
    named = environment.get(FILE_VARIABLE)
    return Path(named) if file is None and named else file


def _environment(environment: Mapping[str, str], problems: list[str]) -> Iterator[LocatedValue]:
    for name, text in sorted(environment.items()):
        if not name.startswith(PREFIX) or name == FILE_VARIABLE:
            continue
        key, origin = name[len(PREFIX) :].lower().replace("__", "."), f"environment variable {name}"
        key = _OTHER_NAMES.get(key, key)
        if key in _SCHEMA.keys:
            secret = (kind := _SCHEMA.keys[key].kind) is not None and kind.secret
            # A secret comes as it is: a Kubernetes Secret is not YAML.
            value = LocatedValue(text, origin) if secret else _value(text, origin, key, problems)
            yield from _layer(key, value)
        elif instead := replacement(key):
            problems.append(f"{origin}: {key} was removed; {instead}")
        elif not _is_service_link(name, text):
            near = nearest(key, list(_SCHEMA.keys))
            hint = f"did you mean {PREFIX}{near.upper().replace('.', '__')}?" if near else "see docs/configuration.md"
            problems.append(f"{origin}: no key has this name; {hint}")


def _overrides(overrides: Sequence[str], problems: list[str]) -> Iterator[LocatedValue]:
    for number, override in enumerate(overrides, start=1):
        key, equals, text = override.partition("=")
        key = key.strip()
        if not equals or not re.fullmatch(r"\w+(\.\w+)*", key):  # the text may be a secret: it is not repeated
            problems.append(f"--set number {number}: must be key.path=value, as in --set source.interval=15s")
            continue
        yield from _layer(key, _value(text, "--set", key, problems))


def _flags(flags: Mapping[str, tuple[str, object]], problems: list[str]) -> Iterator[LocatedValue]:
    for key, (origin, value) in flags.items():
        if isinstance(value, str):
            yield from _layer(key, _value(value, origin, key, problems))
        elif isinstance(value, (list, tuple)):
            yield from _layer(key, LocatedValue([LocatedValue(str(item), origin) for item in value], origin))
        elif isinstance(value, (bool, int, float)):
            yield from _layer(key, LocatedValue(value, origin))


def _value(text: str, origin: str, key: str, problems: list[str]) -> LocatedValue | None:
    """Return the value of a text in YAML. An address or a name that is not YAML (`[::1]:9401`) is taken as it is."""
    path, yaml = tuple(key.split(".")), YamlText(text, origin, _SCHEMA.style)
    try:
        value = yaml.read(path)
    except BadYaml as error:
        if _SCHEMA.style(path) != "typed":
            return LocatedValue(text, origin)
        problems.append(f"{error} (key {key})")
        return None
    problems += yaml.problems
    return value


def _layer(key: str, value: LocatedValue | None) -> Iterator[LocatedValue]:
    """Yield the value wrapped into the sections of its key; nothing for a value that could not be read."""
    if value is not None:
        for name in reversed(key.split(".")):
            value = LocatedValue({name: value}, value.origin)
        yield value


def _with_first_names(document: LocatedValue) -> LocatedValue:
    """Return what is given with the first names of keys; a value of the first name goes before one of the second."""
    for other, name in _OTHER_NAMES.items():
        path = other.split(".")
        if (given := _given(document, path)) is not None:
            (moved,) = _layer(name, given)
            document = _over(moved, _without(document, path))
    return document


def _given(document: LocatedValue, path: Sequence[str]) -> LocatedValue | None:
    """Return what is given at a path, None for nothing."""
    for name in path:
        inner = document.value.get(name) if isinstance(document.value, dict) else None
        if inner is None:
            return None
        document = inner
    return document


def _without(document: LocatedValue, path: Sequence[str]) -> LocatedValue:
    """Return a mapping without the value at a path that it has, and without sections that become empty."""
    first, rest = path[0], path[1:]
    kept = dict(document.value) if isinstance(document.value, dict) else {}
    inner = kept.pop(first)
    if rest and (left := _without(inner, rest)).value:
        kept[first] = left
    return LocatedValue(kept, document.origin)


def _over(lower: LocatedValue, upper: LocatedValue) -> LocatedValue:
    """Return the upper value over the lower: mappings are merged, all else is replaced."""
    if not isinstance(lower.value, dict) or not isinstance(upper.value, dict):
        return upper
    merged = dict(lower.value)
    for name, value in upper.value.items():
        merged[name] = _over(merged[name], value) if name in merged else value
    return LocatedValue(merged, upper.origin)


def _is_service_link(name: str, text: str) -> bool:
    return bool(_SERVICE_LINK.fullmatch(name) or (_SERVICE_PORT.fullmatch(name) and "://" in text))


def check(file: Path, *, on_this_machine: bool = False) -> Config:
    """Load a file alone, without environment and flags. Raises `ConfigError` as `load`.

    Args:
        on_this_machine: whether to check the files and folders that it names as well.
    """
    problems: list[str] = []
    document = _with_first_names(_SCHEMA.read(file, problems))
    return _with_unused(_SCHEMA.validate(document, problems, on_this_machine=on_this_machine), document)


def web_config_file(file: Path) -> Path | None:
    """Return the web configuration file that a configuration file names, which may be invalid."""
    web = _SCHEMA.read(file, []).at(("web",)).value
    name = web["config_file"].value if isinstance(web, dict) and "config_file" in web else None
    return Path(name) if isinstance(name, str) else None
