"""Temperature limits by model, for GPUs that do not tell their own. The last resort, and marked as such in evidence.

Only models of which a dump of the driver's own limits was found are here (test data of telegraf, netdata and
nvidia_gpu_exporter, `nvidia-smi -q` in forums). There is no limit by default: a model that is not here is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple


class Limits(NamedTuple):
    """Degrees Celsius; None where no dump has it.

    Attributes:
        slowdown: of the die, from where the hardware cuts the clocks.
        max_operating: of the die.
        memory: highest of the memory.
    """

    slowdown: float | None
    max_operating: float | None
    memory: float | None = None


# The first that matches. Limits of models that answer with margins (H100 and on) are worked out from the margins.
_BY_MODEL: Sequence[tuple[re.Pattern[str], Limits]] = [
    (re.compile(pattern), limits)
    for pattern, limits in (
        (r"A100-SXM", Limits(89.0, 85.0, 95.0)),
        (r"A10G\b", Limits(95.0, 88.0)),
        (r"\bT4\b", Limits(93.0, 85.0)),
        (r"V100", Limits(87.0, 83.0, 85.0)),
        (r"P100", Limits(82.0, None)),
        (r"RTX 30[89]0\b(?! Ti)", Limits(95.0, 93.0)),
        (r"RTX 2080 (SUPER|Super)", Limits(97.0, 89.0)),
        (r"RTX 4080 (SUPER|Super)", Limits(96.0, 90.0)),
        (r"H100 80GB HBM3|H100 SXM", Limits(89.0, 87.0)),
        (r"H200(?! NVL)", Limits(89.0, 87.0)),
        (r"L40S", Limits(90.0, 88.0)),
        (r"RTX 4000 SFF Ada", Limits(89.0, 87.0)),
        (r"RTX 4090\b", Limits(85.0, 83.0)),
        (r"RTX 5090\b", Limits(92.0, 90.0)),
        (r"RTX PRO 6000 Blackwell", Limits(93.0, 93.0)),
    )
]

_NONE = Limits(None, None)


@lru_cache(maxsize=256)
def limits_of(model: str) -> Limits:
    """Give the limits of a model by its product name; all None when it is not in the table."""
    return next((limits for pattern, limits in _BY_MODEL if pattern.search(model)), _NONE)


_DATA_CENTRE = re.compile(r"\b(A100|A800|A30|H100|H800|H20|H200|GH200|B100|B200|B300|GB200|GB300|V100|P100)\b")


def is_data_centre(model: str) -> bool:
    """Tell whether a model is a data-centre part whose memory runs with ECC unless somebody turned it off."""
    return bool(_DATA_CENTRE.search(model))
