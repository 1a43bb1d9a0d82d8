"""The sources of packages from which the servers of the tests are built."""

from __future__ import annotations

import pytest

from tests.support.kubernetes.build_servers import sources

SIGNED = "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            ["deb https://mirror/debian bookworm main", "# deb-src https://mirror/debian bookworm main\n"],
            "deb https://mirror/debian bookworm main\ndeb-src https://mirror/debian bookworm main\n\n"
            "# deb-src https://mirror/debian bookworm main\n",
        ),
        (
            [f"# x\nTypes: deb\nURIs: https://mirror/debian\n{SIGNED}\n\nTypes: deb deb-src\nURIs: https://b\n"],
            f"# x\nTypes: deb deb-src\nURIs: https://mirror/debian\n{SIGNED}\n\nTypes: deb deb-src\nURIs: https://b\n",
        ),
        ([], ""),
    ],
)
def test_entries_for_source_packages_are_added(given: list[str], expected: str) -> None:
    assert sources(given) == expected
