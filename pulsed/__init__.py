"""pulsed reads what NVIDIA's tools measure on a GPU node and republishes what it means.

Of the package itself there is only the version, with revision and platform for `--version` and `pulsed_build_info`.
"""

import platform
from functools import cache
from pathlib import Path

__version__ = "0.1.0"

_FILE = Path(__file__).with_name("REVISION")
"""Written when a package is built; a checkout has none."""


@cache
def revision() -> str:
    """Return the commit that pulsed was built from; `unknown` in a checkout."""
    try:
        return _FILE.read_text(encoding="utf-8").strip() or "unknown"
    except OSError:
        return "unknown"


def version_text() -> str:
    """Return version, revision and platform on one line."""
    system = f"{platform.system().lower()}/{platform.machine()}"
    return f"pulsed {__version__} (revision {revision()}, {system}, Python {platform.python_version()})"
