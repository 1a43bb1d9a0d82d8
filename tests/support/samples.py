"""Where other people's captures and exporter pages lie, when the checkout has them beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples"

needs_samples = pytest.mark.skipif(
    not SAMPLES.is_dir(), reason=f"the sample captures are not beside this checkout ({SAMPLES})"
)
