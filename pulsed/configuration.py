"""The whole configuration: the settings of all layers as one frozen tree, loaded from flags, environment and a file.

CONFIGURATION.md and config.example.yaml are generated from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pulsed.adapter.settings import AdapterSettings
from pulsed.attribution.settings import AttributionSettings
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.settings import ComputeSettings
from pulsed.config.load import file_of
from pulsed.config.load import load as load_settings
from pulsed.config.schema import Schema, shown_settings
from pulsed.errors import UsageError
from pulsed.kubernetes.settings import KubernetesSettings
from pulsed.log import LogSettings
from pulsed.model.gpu_selection import parse
from pulsed.present.exposition.page import PageSettings
from pulsed.present.job_numbers import Prices
from pulsed.present.settings import EventsSettings, HistorySettings, PublishSettings
from pulsed.reader.settings import SourceSettings
from pulsed.regular_file import why_not_writable
from pulsed.server.settings import Addresses, WebServerSettings
from pulsed.settings import Count, FileName, HttpPath, Kind, Problem, Settings, Switch, Text, setting


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
    """The whole configuration."""

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
        "GPUs to show. Unset: all; on a node's own GPUs, `pulsed snapshot` and `pulsed export` then follow "
        "CUDA_VISIBLE_DEVICES, NVIDIA_VISIBLE_DEVICES, SLURM_STEP_GPUS or SLURM_JOB_GPUS.",
        example="0,2-3",
    )
    web: WebServerSettings = setting(WebServerSettings(), "HTTP access and its limits.")
    log: LogSettings = setting(LogSettings(), "Log on standard error.")
    source: SourceSettings = setting(SourceSettings(), "Where readings come from.")
    compute: ComputeSettings = setting(ComputeSettings(), "Derived values.")
    health: HealthSettings = setting(HealthSettings(), "Health checks (HEALTH.md).")
    kubernetes: KubernetesSettings = setting(KubernetesSettings(), "The Kubernetes API.")
    adapter: AdapterSettings = setting(AdapterSettings(), "`pulsed adapter`.")
    attribution: AttributionSettings = setting(AttributionSettings(), "Owners of the GPUs.")
    prices: Prices = setting(Prices(), "Prices of GPU time and energy.")
    publish: PublishSettings = setting(PublishSettings(), "What is published.")
    history: HistorySettings = setting(HistorySettings(), "Recent samples in memory, for `/gpus/{gpu}/history`.")
    events: EventsSettings = setting(EventsSettings(), "Server-sent events, `/events`.")

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

    def masked(self) -> dict[str, object]:
        """Return all settings as JSON, for everybody to see: secrets and logins in URLs are replaced by stars."""
        return shown_settings(self)


_SCHEMA = Schema(Config, "listen: :9401")


def load(
    file: Path | None,
    overrides: Sequence[str],
    environment: Mapping[str, str],
    flags: Mapping[str, tuple[str, object]] | None = None,
) -> Config:
    """Return the configuration of `pulsed.config.load`; without a file the one that the environment names, if any."""
    return load_settings(_SCHEMA, file_of(file, environment), overrides, environment, flags or {})


def check(file: Path, *, on_this_machine: bool = False) -> Config:
    """Load a file alone, without environment and flags. Raises `ConfigError` as `load`.

    Args:
        on_this_machine: whether the files and folders that it names are checked, too.
    """
    problems: list[str] = []
    return _SCHEMA.validate(_SCHEMA.read(file, problems), problems, on_this_machine=on_this_machine)


def web_config_file(file: Path) -> Path | None:
    """Return the web configuration file that a configuration file names, which may be invalid."""
    web = _SCHEMA.read(file, []).at(("web",)).value
    name = web["config_file"].value if isinstance(web, dict) and "config_file" in web else None
    return Path(name) if isinstance(name, str) else None
