"""Pages of dcgm-exporter from a table of GPUs, pods and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

Labels = Mapping[str, str]


class Row(NamedTuple):
    """A GPU or MIG instance with its values, by DCGM's names without `DCGM_FI_`, and a pod that has it."""

    values: Mapping[str, float]
    gpu: int = 0
    node: str = "node-1"
    pod: str = ""
    namespace: str = ""
    container: str = ""
    mig: tuple[str, str] | None = None
    model: str = "NVIDIA A100-SXM4-80GB"

    def labels(self) -> Labels:
        """Return the labels of its series; `mig` is id and profile."""
        mig = {"GPU_I_PROFILE": self.mig[1], "GPU_I_ID": self.mig[0]} if self.mig else {}
        return {
            "gpu": str(self.gpu),
            "UUID": f"GPU-{self.node}-{self.gpu}",
            "device": f"nvidia{self.gpu}",
            "modelName": self.model,
            **mig,
            "Hostname": self.node,
            "container": self.container,
            "namespace": self.namespace,
            "pod": self.pod,
        }


def dcgm_page(rows: Sequence[Row]) -> str:
    """Return the page of these rows, family by family."""
    lines = []
    for name in dict.fromkeys(name for row in rows for name in row.values):
        kind = "counter" if name.endswith("VIOLATION") else "gauge"
        lines += [f"# HELP DCGM_FI_{name} made", f"# TYPE DCGM_FI_{name} {kind}"]
        for row in rows:
            if name in row.values:
                labels = ",".join(f'{key}="{text}"' for key, text in row.labels().items())
                lines.append(f"DCGM_FI_{name}{{{labels}}} {row.values[name]}")
    return "\n".join(lines) + "\n"
