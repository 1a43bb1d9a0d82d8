"""What the tests' real API server of version 1.20 does not have is checked by the schemas of 1.34.

Pod Security is no field of an object: `check_restricted` is the standard that it enforces.
"""

from __future__ import annotations

import pytest
import yaml

from tests.system.deploy.chart import CHART, Manifest, complaints, render
from tests.system.deploy.install import KUBERNETES

VERSION = "1.34.0"


def newer(key: str) -> Manifest:
    """Return an object with a key that version 1.20 does not know."""
    if key == "averageValue":  # of autoscaling/v2
        found: Manifest = yaml.safe_load((CHART / "examples" / "hpa.yaml").read_text())
        return found
    (service,) = (each for each in render({"service": {"nodeLocal": True}}) if key in each.get("spec", {}))
    return service


@pytest.mark.parametrize("key", ["averageValue", "internalTrafficPolicy"])
def test_what_is_newer_than_the_server_is_valid_and_what_is_wrong_in_it_is_found(key: str) -> None:
    assert VERSION in KUBERNETES
    manifest = newer(key)
    text = yaml.safe_dump(manifest)
    assert complaints([manifest], VERSION) == []
    for wrong in (f"{key}s:", f"{key}: [] #"):
        assert complaints([yaml.safe_load(text.replace(f"{key}:", wrong))], VERSION) != []
