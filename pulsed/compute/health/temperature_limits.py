"""Temperature limits by model, for GPUs that do not report their own; evidence marks them as taken from this table.

It has only models with a known dump of the driver's own limits (test data of telegraf, netdata and nvidia_gpu_exporter,
`nvidia-smi -q` in forums). There is no default limit: other models are not judged.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple


class TemperatureLimits(NamedTuple):
    """Degrees Celsius; None where unknown.

    Attributes:
        slowdown: die temperature at which the hardware reduces the clocks.
        max_operating: highest operating temperature of the die.
        memory: highest operating temperature of the memory.
    """

    slowdown: float | None = None
    max_operating: float | None = None
    memory: float | None = None


BY_MODEL = (
    (r"A100-SXM", TemperatureLimits(89.0, 85.0, 95.0)),
    (r"A10G\b", TemperatureLimits(95.0, 88.0)),
    (r"\bT4\b", TemperatureLimits(93.0, 85.0)),
    (r"V100", TemperatureLimits(87.0, 83.0, 85.0)),
    (r"P100", TemperatureLimits(82.0)),
    (r"RTX 30[89]0 Ti", TemperatureLimits()),
    (r"RTX 30[89]0\b", TemperatureLimits(95.0, 93.0)),
    (r"RTX 2080 (SUPER|Super)", TemperatureLimits(97.0, 89.0)),
    (r"RTX 4080 (SUPER|Super)", TemperatureLimits(96.0, 90.0)),
    (r"H100 80GB HBM3|H100 SXM", TemperatureLimits(89.0, 87.0)),
    (r"\bH200 NVL", TemperatureLimits()),
    (r"\bH200", TemperatureLimits(89.0, 87.0)),
    (r"L40S", TemperatureLimits(90.0, 88.0)),
    (r"RTX 4000 SFF Ada", TemperatureLimits(89.0, 87.0)),
    (r"RTX 4090\b", TemperatureLimits(85.0, 83.0)),
    (r"RTX 5090\b", TemperatureLimits(92.0, 90.0)),
    (r"RTX PRO 6000 Blackwell", TemperatureLimits(93.0, 93.0)),
)
"""By pattern, which RE2 (Prometheus) understands as well; the first match counts. Limits of models that report margins
(H100 and newer) are calculated from them."""

_DATA_CENTRE = re.compile(
    r"\b(A100|A800|A10|A10G|A30|A40|L4|L40|L40S|T4|H100|H800|H20|H200|GH200|B100|B200|B300|GB200|GB300|V100|P100)\b"
)


@lru_cache(maxsize=256)
def limits_of(model: str) -> TemperatureLimits:
    """Return the limits of a model by its product name; all None when it is not in the table."""
    return next((limits for pattern, limits in BY_MODEL if re.search(pattern, model)), TemperatureLimits())


def is_data_centre(model: str) -> bool:
    """Return whether a model is a data-centre GPU, whose memory runs with ECC unless it was turned off."""
    return _DATA_CENTRE.search(model) is not None
