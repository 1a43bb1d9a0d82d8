"""The section `source`: its kind, its interval, and the settings of each kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from pulsed.config.kubernetes import ExporterPodsSection
from pulsed.config.section import Problem, Section
from pulsed.config.values import (
    ALL_NAMESPACES,
    Columns,
    Duration,
    Factor,
    FieldIds,
    FileName,
    Groups,
    Moment,
    PositiveCount,
    Secret,
    Size,
    Switch,
    Targets,
    Text,
    WholeNumber,
)
from pulsed.model.raw_tick import MAX_GPUS
from pulsed.reader.dcgmi.settings import DcgmiSettings
from pulsed.reader.exporter.scraper import ExporterSettings
from pulsed.reader.nvml.settings import LEAST_INTERVAL, NvmlSettings
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


class DcgmiSection(Section):
    """For the kind `dcgmi`."""

    path: Text = Field(default=_DCGMI.path, description="Program: a path, or a name in PATH.")
    host: Text | None = Field(
        default=None,
        description="Remote host engine: `host[:port]`, or `unix:///path`. Unset: the local one.",
        examples=["gpu1:5555"],
    )
    groups: Groups = Field(
        default=tuple(GROUPS),
        description="Field groups: "
        + "; ".join(f"`{name}` {group.meaning}" for name, group in GROUPS.items())
        + ". Unsupported fields are left out and logged once.",
    )
    fields: FieldIds = Field(default=(), description="Further DCGM field ids to read with every sample.")
    entities: Text | None = Field(
        default=None,
        description="Entities to watch, as for `dcgmi dmon -i`. Unset: all GPUs and MIG instances.",
        examples=["0,1"],
    )
    slow_interval: Duration = Field(
        default=_DCGMI.slow_interval,
        description="Interval of slow fields: limits, error counts, settings.",
    )
    read_timeout: Duration | None = Field(
        default=None,
        description="Restart dcgmi after this time without a sample. Unset: ten intervals, at least 10s.",
        examples=["10s"],
    )


class ExporterSection(Section):
    """For the kind `exporter`."""

    targets: Targets = Field(
        default=("http://localhost:9400/metrics",),
        repr=False,  # a URL may hold a login
        description="URLs (http, https) or files of saved pages, which are read again each time. Credentials in a URL "
        "are used for that target and never shown.",
    )
    own_node: Switch = Field(
        default=False,
        description="Refuse pages of `targets` with GPUs of another host than `node`, such as those of a Service that "
        "does not route to the exporter of this node. The host is what the page says: no proof against a false page.",
    )
    discovery: Literal["static", "kubernetes"] = Field(
        default="static",
        description="`static` reads `targets`. `kubernetes` reads the exporters on the node `node` instead, which the "
        "Kubernetes API lists: that, and not the page, proves the node.",
    )
    kubernetes: ExporterPodsSection = Field(default=ExporterPodsSection(), description="For `discovery: kubernetes`.")
    timeout: Duration = Field(default=_EXPORTER.timeout, description="Timeout of a scrape; at most the interval.")
    max_page_bytes: Size = Field(
        default=_EXPORTER.max_page_bytes,
        description="Size limit of a decompressed page. A target with a larger one fails.",
    )
    username: Text | None = Field(
        default=None,
        description="Basic authentication, for targets without credentials in the URL.",
        examples=["pulsed"],
    )
    password: Secret | None = Field(default=None, description="Its password.", examples=["secret"])
    password_file: FileName | None = Field(
        default=None, description="File with the password, read for every scrape.", examples=["/etc/pulsed/password"]
    )
    bearer_token: Secret | None = Field(
        default=None, description="Bearer token, instead of user and password.", examples=["secret"]
    )
    bearer_token_file: FileName | None = Field(
        default=None,
        description="File with the token, read for every scrape.",
        examples=["/var/run/secrets/kubernetes.io/serviceaccount/token"],
    )
    ca_file: FileName | None = Field(
        default=None,
        description="PEM file of trusted authorities. Unset: the system's.",
        examples=["/etc/pulsed/ca.pem"],
    )
    cert_file: FileName | None = Field(
        default=None, description="PEM file of the client certificate.", examples=["/etc/pulsed/client.pem"]
    )
    key_file: FileName | None = Field(
        default=None,
        description="PEM file of its key. Unset: in `cert_file`.",
        examples=["/etc/pulsed/client.key"],
    )
    insecure_skip_verify: Switch = Field(
        default=_EXPORTER.insecure_skip_verify, description="Accept any server certificate."
    )

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


class NvmlSection(Section):
    """For the kind `nvml`."""

    slow_interval: Duration = Field(
        default=_NVML.slow_interval,
        description="Interval of limits, error counts, links, processes, and the list of MIG instances.",
    )
    release_file: Text = Field(
        default=_NVML.release_file,
        description="While this file exists, the driver is released, from the next tick on: a reset of a GPU, a change"
        " of the MIG mode, and unloading the driver fail while a program uses the GPU.",
    )
    timeout: Duration | None = Field(
        default=None,
        description="Time after which a driver that does not answer counts as hung. Unset: three intervals, at least "
        "2s.",
        examples=["2s"],
    )


class ReplaySection(Section):
    """For the kind `replay`."""

    path: FileName | None = Field(
        default=None,
        description="Required for `replay`: a record of `pulsed record`, a CSV of `pulsed export` (both with their own "
        "times), a capture of `dcgmi dmon`, a saved page, or a folder of pages in order.",
        examples=["/var/lib/pulsed/capture.txt"],
    )
    columns: Columns = Field(
        default=(),
        description="Short names of the columns of a capture without a header.",
    )
    speed: Factor = Field(
        default=1.0,
        description="Playback speed; 0: as fast as possible. Timestamps stay the same.",
    )
    loop: Switch = Field(default=False, description="Repeat at the end.")
    start: Moment | None = Field(
        default=None,
        description="Time of the first sample, except for records and CSV. Unset: 2026-01-01T00:00:00Z.",
        examples=["2026-01-01T00:00:00Z"],
    )


class DemoSection(Section):
    """For the kind `demo`."""

    seed: WholeNumber = Field(default=0, description="Seed of the simulation.")


class SourceSection(Section):
    """Where the readings come from."""

    kind: Kind = Field(
        default="auto",
        description="`dcgmi` runs `dcgmi dmon`, `exporter` scrapes dcgm-exporters, `nvml` reads the driver itself "
        "(`pip install 'pulsed[nvml]'`), `replay` plays a recording, `demo` simulates eight GPUs. `auto` takes `dcgmi` "
        "if the host engine answers, else the exporter at `source.exporter.targets`, else `nvml`; never `demo`.",
    )
    interval: Duration | None = Field(
        default=None,
        description="Time between samples. Unset: 15s for `exporter`, 1s for `dcgmi`, `nvml` and `demo`, as recorded "
        "for `replay`. Minimum: 100ms for `dcgmi` (less is raised), 1s for `exporter`, 100ms for `nvml` and `demo`, "
        "10ms for `replay`.",
        examples=["15s"],
    )
    stale_after: Duration | None = Field(
        default=None,
        description="Older data leaves /metrics and is marked stale in the API. Unset: three intervals.",
        examples=["45s"],
    )
    max_gpus: PositiveCount = Field(
        default=MAX_GPUS,
        description="Limit of GPUs and MIG instances of one target. A target with more fails.",
    )
    dcgmi: DcgmiSection = Field(default=DcgmiSection(), description="Source `dcgmi`.")
    exporter: ExporterSection = Field(default=ExporterSection(), description="Source `exporter`.")
    nvml: NvmlSection = Field(default=NvmlSection(), description="Source `nvml`.")
    replay: ReplaySection = Field(default=ReplaySection(), description="Source `replay`.")
    demo: DemoSection = Field(default=DemoSection(), description="Source `demo`.")

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
