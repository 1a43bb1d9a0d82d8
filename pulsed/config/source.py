"""The configuration's chapter `source`: which kind of source, how often, and what each kind needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from pulsed.config.section import Problem, Section
from pulsed.config.values import (
    Columns,
    Duration,
    Factor,
    FieldIds,
    FileName,
    Groups,
    Moment,
    Secret,
    Size,
    Switch,
    Targets,
    Text,
    WholeNumber,
)
from pulsed.translate.watches import GROUPS

Kind = Literal["auto", "dcgmi", "exporter", "replay", "demo"]


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often a kind of source can be read.

    Attributes:
        least: shortest `source.interval`, seconds; less is an error. 0: the source itself raises it.
        default: seconds when `source.interval` is not set; None: the source itself says.
    """

    least: float
    default: float | None


CADENCES: Mapping[str, Cadence] = {
    "auto": Cadence(0.0, None),  # each candidate keeps its own
    "dcgmi": Cadence(0.0, 1.0),
    "exporter": Cadence(1.0, 15.0),
    "replay": Cadence(0.01, None),
    "demo": Cadence(0.1, 1.0),
}
"""One line per kind of source."""

STALE_INTERVALS = 3
"""After so many intervals without a new sample data is stale, when `source.stale_after` is not set."""


class Dcgmi(Section):
    """For the kind `dcgmi`."""

    path: Text = Field(default="dcgmi", description="The program: its path, or its name in PATH.")
    host: Text | None = Field(
        default=None,
        description="A host engine elsewhere: `host[:port]`, or `unix:///path` for a socket. Unset: this machine's.",
        examples=["gpu1:5555"],
    )
    groups: Groups = Field(
        default=tuple(GROUPS),
        description="Which fields to read: "
        + "; ".join(f"`{name}` {group.meaning}" for name, group in GROUPS.items())
        + ". What this DCGM or these GPUs cannot give is left out, and the log says so once.",
    )
    fields: FieldIds = Field(default=(), description="Ids of further DCGM fields to read with every sample.")
    entities: Text | None = Field(
        default=None,
        description="What to watch, as `dcgmi dmon -i` takes it. Unset: all GPUs and MIG instances.",
        examples=["0,1"],
    )
    slow_interval: Duration = Field(
        default=30.0,
        description="Time between two readings of what changes slowly: limits, error counts, settings.",
    )
    read_timeout: Duration | None = Field(
        default=None,
        description="Time without a sample after which dcgmi counts as hung and is started anew. Unset: ten intervals, "
        "at least 10s.",
        examples=["10s"],
    )


class Exporter(Section):
    """For the kind `exporter`."""

    targets: Targets = Field(
        default=("http://localhost:9400/metrics",),
        repr=False,  # a URL may hold a login
        description="The exporters to scrape: http or https URLs, or saved pages by their names, read anew each time. "
        "A user and password in a URL are used for that target and never shown.",
    )
    timeout: Duration = Field(default=10.0, description="How long one scrape may take. Never longer than the interval.")
    max_page_bytes: Size = Field(default=64 * 2**20, description="Size limit of a page, after decompression.")
    username: Text | None = Field(
        default=None,
        description="User of HTTP basic authentication, for all targets without an own one.",
        examples=["pulsed"],
    )
    password: Secret | None = Field(default=None, description="The password of that user.", examples=["secret"])
    password_file: FileName | None = Field(
        default=None, description="File with the password, read at start.", examples=["/etc/pulsed/password"]
    )
    bearer_token: Secret | None = Field(
        default=None, description="Token to send instead of user and password.", examples=["secret"]
    )
    bearer_token_file: FileName | None = Field(
        default=None,
        description="File with the token, read anew for every scrape.",
        examples=["/var/run/secrets/kubernetes.io/serviceaccount/token"],
    )
    ca_file: FileName | None = Field(
        default=None,
        description="PEM file of the only authorities to trust. Unset: those of the system.",
        examples=["/etc/pulsed/ca.pem"],
    )
    cert_file: FileName | None = Field(
        default=None, description="PEM file of the certificate to identify with.", examples=["/etc/pulsed/client.pem"]
    )
    key_file: FileName | None = Field(
        default=None,
        description="PEM file of its key. Unset: the certificate's file holds it.",
        examples=["/etc/pulsed/client.key"],
    )
    insecure_skip_verify: Switch = Field(default=False, description="Accept any certificate of an exporter.")

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


class Replay(Section):
    """For the kind `replay`."""

    path: FileName | None = Field(
        default=None,
        description="A record of `pulsed record`, which has its own times, intervals and targets; a capture of "
        "`dcgmi dmon`; a saved page; a folder of pages, which are taken in order; or a CSV of `pulsed export`, with "
        "its own times. The kind `replay` needs it.",
        examples=["/var/lib/pulsed/capture.txt"],
    )
    columns: Columns = Field(
        default=(),
        description="Short names of the columns of a capture that has no header. A list, or names with commas.",
    )
    speed: Factor = Field(
        default=1.0,
        description="How many times as fast as recorded; 0 is as fast as possible. Timestamps stay the same.",
    )
    loop: Switch = Field(default=False, description="Start over at the end.")
    start: Moment | None = Field(
        default=None,
        description="Time of the first sample, except of a record or a CSV. Unset: 2026-01-01T00:00:00Z, so that two "
        "replays are alike.",
        examples=["2026-01-01T00:00:00Z"],
    )


class Demo(Section):
    """For the kind `demo`."""

    seed: WholeNumber = Field(default=0, description="Same seed, same values.")


class SourceSection(Section):
    """Where the readings come from."""

    kind: Kind = Field(
        default="auto",
        description="`dcgmi` runs `dcgmi dmon`, `exporter` scrapes dcgm-exporters, `replay` plays a recording, `demo` "
        "simulates eight GPUs. `auto` takes the first that works: `dcgmi` with a reachable host engine, else the "
        "exporter at `source.exporter.targets`; never demo data.",
    )
    interval: Duration | None = Field(
        default=None,
        description="Time between two samples. Unset: 15s for `exporter`, 1s for `dcgmi` and `demo`, that of the "
        "recording for `replay`. Least: 100ms for `dcgmi`, which raises less to that, 1s for `exporter`, 100ms for "
        "`demo`, 10ms for `replay`.",
        examples=["15s"],
    )
    stale_after: Duration | None = Field(
        default=None,
        description="Data older than this leaves /metrics and is marked as stale in the API. Unset: three intervals.",
        examples=["45s"],
    )
    dcgmi: Dcgmi = Field(default=Dcgmi(), description="The host engine, and what to read from it.")
    exporter: Exporter = Field(default=Exporter(), description="The exporters to scrape, and how.")
    replay: Replay = Field(default=Replay(), description="The recording to play, and how.")
    demo: Demo = Field(default=Demo(), description="The simulation.")

    def problems(self) -> Iterator[Problem]:
        """Find an interval that the kind cannot keep, and what the kind needs and lacks."""
        least = CADENCES[self.kind].least
        if self.interval is not None and self.interval < least:
            yield "interval", f"is {self.interval:g} s; allowed for the kind {self.kind}: {least:g} s and up"
        if self.kind == "replay" and self.replay.path is None:
            yield "kind", "is replay, which needs a recording; set source.replay.path"

    def seconds(self) -> float | None:
        """Seconds between two samples; None when the source itself says (`replay`)."""
        return CADENCES[self.kind].default if self.interval is None else self.interval
