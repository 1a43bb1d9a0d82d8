"""Settings of `pulsed adapter`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pulsed.config.settings import ListKind, Problem, Settings, setting, without
from pulsed.config.values import Duration, FieldNames, FileName, Ratio, RoutePrefix, Text, not_empty
from pulsed.errors import did_you_mean
from pulsed.kubernetes.settings import LabelSelectors, Namespaces, PodPort
from pulsed.present.api.sample_fields import GAUGES
from pulsed.server.settings import Addresses

CommonNames = Annotated[tuple[str, ...], ListKind("common name", "names; one or a list of them", not_empty, "text")]


@dataclass(frozen=True, slots=True)
class ServingSettings(Settings):
    """What the adapter keeps current in a pod: its certificate, made by `openssl`, which replicas share, and the
    authority of the API server's certificate as a client, from the ConfigMap `extension-apiserver-authentication`."""

    folder: FileName | None = setting(
        None,
        "Folder of `tls.crt`, `tls.key` (with `secret`) and `front-proxy-ca.crt`, which the web configuration"
        " names. Unset: nothing is kept.",
        example="/run/pulsed-tls",
    )
    secret: Text | None = setting(
        None,
        "Existing Secret for its certificate; needs get and update of it.",
        example="pulsed-adapter-tls",
    )
    service: Text = setting("pulsed-adapter", "The Service that the certificate is for.")
    api_services: CommonNames = setting(
        (),
        "APIServices that get the authority of the certificate. Needs get and patch of them.",
        example=("v1beta2.custom.metrics.k8s.io",),
    )

    def without_effect(self) -> Iterator[Problem]:
        """Yield what is kept in a folder that is not set."""
        if self.folder is None:
            yield from without(self, "folder")


@dataclass(frozen=True, slots=True)
class AdapterSettings(Settings):
    """For `pulsed adapter`. Timeout, credentials and TLS for reading the daemons are those of `source.exporter`."""

    selectors: LabelSelectors = setting(
        ("app.kubernetes.io/name=pulsed",), "Label selectors of the daemons' pods, one of which must match."
    )
    namespaces: Namespaces | None = setting(
        None,
        "Their namespaces; users who can create pods there can report any number, and get the credentials. "
        "Unset: the adapter's own. `all`: every namespace; not with credentials.",
        example="monitoring",
    )
    container_port: PodPort = setting("http", "Their port.", example=9401)
    scheme: Literal["http", "https"] = setting("http", "Their scheme.")
    route_prefix: RoutePrefix | None = setting(None, "Prefix of their routes. Unset: none.", example="/pulsed")
    interval: Duration = setting(10.0, "Time between two readings of a daemon.")
    stale_after: Duration | None = setting(
        None,
        "A daemon's numbers are unknown after this time without an answer. Unset: three intervals.",
        example="30s",
    )
    min_coverage: Ratio = setting(
        0.5,
        "Part of a workload's GPUs whose values a mean or maximum needs. A sum needs all.",
    )
    fields: FieldNames = setting(
        (
            "real_utilization_ratio",
            "gpu_utilization_ratio",
            "saturation_ratio",
            "memory_used_ratio",
            "memory_used_bytes",
            "power_watts",
        ),
        "Numbers that are metrics: `real_utilization_ratio` is `gpu_real_utilization` (mean), with `_sum` and"
        " `_max`; others are sums, such as `gpu_power_watts`.",
    )
    client_names: CommonNames = setting(
        (),
        "Common names of client certificates that requests of `/apis` need, usually `front-proxy-client`. Unset: any.",
        example=("front-proxy-client",),
    )

    plain_listen: Addresses | None = setting(
        None,
        "Further addresses, for plain HTTP: `/autoscale/v1`, probes and `/metrics`. Unset: none.",
        example=(":8080",),
    )

    serving: ServingSettings = setting(ServingSettings(), "For HTTPS in a cluster.")

    def problems(self) -> Iterator[Problem]:
        """Yield fields that are not numbers to scale on."""
        for name in self.fields:
            if name not in GAUGES:
                hint = did_you_mean(name, GAUGES, "allowed: gauges of docs/metrics.md without pulsed_gpu_")
                yield "fields", f"has {name!r}, which is not a number to scale on; {hint}"
