"""The section `source`: its kind, its interval, and the settings of each kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pulsed.config.kubernetes import ExporterPodsSection
from pulsed.config.values import ALL_NAMESPACES, Columns, FieldIds, Groups, Targets
from pulsed.model.raw_tick import MAX_GPUS
from pulsed.reader.dcgmi.settings import DcgmiSettings
from pulsed.reader.exporter.settings import ExporterSettings
from pulsed.reader.nvml.settings import LEAST_INTERVAL, NvmlSettings
from pulsed.settings import (
    Duration,
    Factor,
    FileName,
    Moment,
    PositiveCount,
    Problem,
    Secret,
    Settings,
    Size,
    Switch,
    Text,
    WholeNumber,
    setting,
)
from pulsed.translate.fields import GROUPS

_DCGMI, _EXPORTER, _NVML = DcgmiSettings(()), ExporterSettings(), NvmlSettings()

Kind = Literal["auto", "dcgmi", "exporter", "nvml", "replay", "demo"]


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often a kind of source can be read.

    Attributes:
        least: shortest `source.interval`, seconds; less is an error. 0: the source itself raises it.
        default: seconds when `source.interval` is not set; None: the source decides.
    """

    least: float
    default: float | None


CADENCES: Mapping[str, Cadence] = {
    "auto": Cadence(0.0, None),  # each candidate keeps its own
    "dcgmi": Cadence(0.0, _DCGMI.interval),
    "exporter": Cadence(1.0, _EXPORTER.interval),
    "nvml": Cadence(LEAST_INTERVAL, _NVML.interval),
    "replay": Cadence(0.01, None),
    "demo": Cadence(0.1, 1.0),
}
"""One line per kind of source."""

STALE_INTERVALS = 3
"""After so many intervals without a new sample data is stale, when `source.stale_after` is not set."""


@dataclass(frozen=True, slots=True)
class DcgmiSection(Settings):
    """For the kind `dcgmi`."""

    path: Text = setting(_DCGMI.path, "Program: a path, or a name in PATH.")
    host: Text | None = setting(
        None, "Remote host engine: `host[:port]`, or `unix:///path`. Unset: the local one.", example="gpu1:5555"
    )
    groups: Groups = setting(
        tuple(GROUPS),
        "Field groups: "
        + "; ".join(f"`{name}` {group.meaning}" for name, group in GROUPS.items())
        + ". Unsupported fields are left out and logged once.",
    )
    fields: FieldIds = setting((), "Further DCGM field ids to read with every sample.")
    entities: Text | None = setting(
        None, "Entities to watch, as for `dcgmi dmon -i`. Unset: all GPUs and MIG instances.", example="0,1"
    )
    slow_interval: Duration = setting(_DCGMI.slow_interval, "Interval of slow fields: limits, error counts, settings.")
    read_timeout: Duration | None = setting(
        None, "Restart dcgmi after this time without a sample. Unset: ten intervals, at least 10s.", example="10s"
    )


@dataclass(frozen=True, slots=True)
class ExporterSection(Settings):
    """For the kind `exporter`."""

    targets: Targets = setting(
        ("http://localhost:9400/metrics",),
        "URLs (http, https) or files of saved pages, which are read again each time. Credentials in a URL "
        "are used for that target and never shown.",
        hidden=True,
    )
    own_node: Switch = setting(
        False,
        "Refuse pages of `targets` with GPUs of another host than `node`, such as those of a Service that "
        "does not route to the exporter of this node. The host is what the page says: no proof against a false page.",
    )
    discovery: Literal["static", "kubernetes"] = setting(
        "static",
        "`static` reads `targets`. `kubernetes` reads the exporters on the node `node` instead, which the "
        "Kubernetes API lists: that, and not the page, proves the node.",
    )
    kubernetes: ExporterPodsSection = setting(ExporterPodsSection(), "For `discovery: kubernetes`.")
    timeout: Duration = setting(_EXPORTER.timeout, "Timeout of a scrape; at most the interval.")
    max_page_bytes: Size = setting(
        _EXPORTER.max_page_bytes, "Size limit of a decompressed page. A target with a larger one fails."
    )
    username: Text | None = setting(
        None, "Basic authentication, for targets without credentials in the URL.", example="pulsed"
    )
    password: Secret | None = setting(None, "Its password.", example="secret", hidden=True)
    password_file: FileName | None = setting(
        None, "File with the password, read for every scrape.", example="/etc/pulsed/password"
    )
    bearer_token: Secret | None = setting(
        None, "Bearer token, instead of user and password.", example="secret", hidden=True
    )
    bearer_token_file: FileName | None = setting(
        None,
        "File with the token, read for every scrape.",
        example="/var/run/secrets/kubernetes.io/serviceaccount/token",
    )
    ca_file: FileName | None = setting(
        None, "PEM file of trusted authorities. Unset: the system's.", example="/etc/pulsed/ca.pem"
    )
    cert_file: FileName | None = setting(None, "PEM file of the client certificate.", example="/etc/pulsed/client.pem")
    key_file: FileName | None = setting(
        None, "PEM file of its key. Unset: in `cert_file`.", example="/etc/pulsed/client.key"
    )
    insecure_skip_verify: Switch = setting(_EXPORTER.insecure_skip_verify, "Accept any server certificate.")

    def problems(self) -> Iterator[Problem]:
        """Find what contradicts itself among the credentials."""
        for one, other in (
            ("password", "password_file"),
            ("bearer_token", "bearer_token_file"),
            ("username", "bearer_token"),
            ("username", "bearer_token_file"),
        ):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                yield other, f"cannot be set together with {one}; set one of them"
        has_password = self.password is not None or self.password_file is not None
        if self.username is not None and not has_password:
            yield "username", "needs a password too; set password or password_file"
        if self.username is None and has_password:
            key = "password" if self.password is not None else "password_file"
            yield key, "needs a user too; set username"
        if self.key_file is not None and self.cert_file is None:
            yield "key_file", "needs its certificate too; set cert_file"
        if self.discovery == "kubernetes" and self.kubernetes.namespaces == ALL_NAMESPACES:
            for key in self.credentials:
                yield key, "would be sent to any pod with the labels of an exporter; name kubernetes.namespaces"

    @property
    def credentials(self) -> Sequence[str]:
        """The keys of the credentials that are set."""
        keys = ("username", "bearer_token", "bearer_token_file", "cert_file")
        return [key for key in keys if getattr(self, key) is not None]


@dataclass(frozen=True, slots=True)
class NvmlSection(Settings):
    """For the kind `nvml`."""

    slow_interval: Duration = setting(
        _NVML.slow_interval, "Interval of limits, error counts, links, processes, and the list of MIG instances."
    )
    release_file: Text = setting(
        _NVML.release_file,
        "While this file exists, the driver is released, from the next tick on: a reset of a GPU, a change"
        " of the MIG mode, and unloading the driver fail while a program uses the GPU.",
    )
    timeout: Duration | None = setting(
        None,
        "Time after which a driver that does not answer counts as hung. Unset: three intervals, at least 2s.",
        example="2s",
    )


@dataclass(frozen=True, slots=True)
class ReplaySection(Settings):
    """For the kind `replay`."""

    path: FileName | None = setting(
        None,
        "Required for `replay`: a record of `pulsed record`, a CSV of `pulsed export` (both with their own "
        "times), a capture of `dcgmi dmon`, a saved page, or a folder of pages in order.",
        example="/var/lib/pulsed/capture.txt",
    )
    columns: Columns = setting((), "Short names of the columns of a capture without a header.")
    speed: Factor = setting(1.0, "Playback speed; 0: as fast as possible. Timestamps stay the same.")
    loop: Switch = setting(False, "Repeat at the end.")
    start: Moment | None = setting(
        None,
        "Time of the first sample, except for records and CSV. Unset: 2026-01-01T00:00:00Z.",
        example="2026-01-01T00:00:00Z",
    )


@dataclass(frozen=True, slots=True)
class DemoSection(Settings):
    """For the kind `demo`."""

    seed: WholeNumber = setting(0, "Seed of the simulation.")


@dataclass(frozen=True, slots=True)
class SourceSection(Settings):
    """Where the readings come from."""

    kind: Kind = setting(
        "auto",
        "`dcgmi` runs `dcgmi dmon`, `exporter` scrapes dcgm-exporters, `nvml` reads the driver itself "
        "(`pip install 'pulsed[nvml]'`), `replay` plays a recording, `demo` simulates eight GPUs. `auto` takes `dcgmi` "
        "if the host engine answers, else the exporter at `source.exporter.targets`, else `nvml`; never `demo`.",
    )
    interval: Duration | None = setting(
        None,
        "Time between samples. Unset: 15s for `exporter`, 1s for `dcgmi`, `nvml` and `demo`, as recorded "
        "for `replay`. Minimum: 100ms for `dcgmi` (less is raised), 1s for `exporter`, 100ms for `nvml` and `demo`, "
        "10ms for `replay`.",
        example="15s",
    )
    stale_after: Duration | None = setting(
        None, "Older data leaves /metrics and is marked stale in the API. Unset: three intervals.", example="45s"
    )
    max_gpus: PositiveCount = setting(
        MAX_GPUS, "Limit of GPUs and MIG instances of one target. A target with more fails."
    )
    dcgmi: DcgmiSection = setting(DcgmiSection(), "Source `dcgmi`.")
    exporter: ExporterSection = setting(ExporterSection(), "Source `exporter`.")
    nvml: NvmlSection = setting(NvmlSection(), "Source `nvml`.")
    replay: ReplaySection = setting(ReplaySection(), "Source `replay`.")
    demo: DemoSection = setting(DemoSection(), "Source `demo`.")

    def problems(self) -> Iterator[Problem]:
        """Find an interval that the kind cannot keep, and what the kind needs and lacks."""
        least = CADENCES[self.kind].least
        if self.interval is not None and self.interval < least:
            yield "interval", f"is {self.interval:g} s; allowed for the kind {self.kind}: {least:g} s and up"
        if self.kind == "auto" and self.exporter.discovery != "static":
            yield (
                "kind",
                f"is auto, without discovery; set exporter for source.exporter.discovery: {self.exporter.discovery}",
            )
        if self.kind == "replay" and self.replay.path is None:
            yield "kind", "is replay, which needs a recording; set source.replay.path"

    def seconds(self) -> float | None:
        """Return the seconds between two samples; None when the source decides (`replay`)."""
        return CADENCES[self.kind].default if self.interval is None else self.interval
