"""The section `adapter`, of `pulsed adapter`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from pulsed.config.section import Problem, Section
from pulsed.config.values import CommonNames, Duration, FieldNames, LabelSelectors, Namespaces, PodPort, RoutePrefix
from pulsed.present.api.sample_fields import GAUGES
from pulsed.suggestions import did_you_mean


class AdapterSection(Section):
    """For `pulsed adapter`. Timeout, credentials and TLS for reading the daemons are those of `source.exporter`."""

    selectors: LabelSelectors = Field(
        default=("app.kubernetes.io/name=pulsed",),
        description="Label selectors; a pod that matches any of them is a daemon.",
    )
    namespaces: Namespaces | None = Field(
        default=None,
        description="Their namespaces. Whoever can create pods there can report numbers for any workload, and gets the "
        "credentials. Unset: that of the adapter (`kubernetes.namespace_file`); outside of a pod it must be set. "
        "`all`: every namespace; credentials are refused then.",
        examples=["monitoring"],
    )
    container_port: PodPort = Field(
        default="http", description="Their port: number, or name of a container port.", examples=[9401]
    )
    scheme: Literal["http", "https"] = Field(default="http", description="Their scheme.")
    route_prefix: RoutePrefix | None = Field(
        default=None, description="Prefix of their routes. Unset: none.", examples=["/pulsed"]
    )
    interval: Duration = Field(default=10.0, description="Time between two readings of a daemon.")
    stale_after: Duration | None = Field(
        default=None,
        description="Time without an answer of a daemon after which its numbers are unknown. Unset: three intervals.",
        examples=["30s"],
    )
    fields: FieldNames = Field(
        default=(
            "real_utilization_ratio",
            "gpu_utilization_ratio",
            "saturation_ratio",
            "memory_used_ratio",
            "memory_used_bytes",
            "power_watts",
        ),
        description="Numbers of GPUs that are metrics: `real_utilization_ratio` is `gpu_real_utilization` (mean), and "
        "`gpu_real_utilization_sum` and `_max`; what is not a ratio is a sum, such as `gpu_power_watts`.",
    )
    client_names: CommonNames = Field(
        default=(),
        description="Common names of client certificates, one of which every request of `/apis` needs; the web "
        "configuration verifies the certificates. Unset: any client that it accepts. That of the API server is usually "
        "`front-proxy-client`.",
        examples=[("front-proxy-client",)],
    )

    def problems(self) -> Iterator[Problem]:
        """Yield fields that are not numbers to scale on."""
        for name in self.fields:
            if name not in GAUGES:
                hint = did_you_mean(name, GAUGES, "allowed: what METRICS.md lists, without pulsed_gpu_ and counters")
                yield "fields", f"has {name!r}, which is not a number to scale on; {hint}"
