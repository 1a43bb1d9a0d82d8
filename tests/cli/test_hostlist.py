from __future__ import annotations

import pytest

from pulsed.cli.arguments import expanded_hosts
from pulsed.errors import UsageError


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("gpu01", ["gpu01"]),
        ("gpu[01-03,07]", ["gpu01", "gpu02", "gpu03", "gpu07"]),
        ("n[8-10],login1", ["n8", "n9", "n10", "login1"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("r[1-2]n[1-2].hpc", ["r1n1.hpc", "r1n2.hpc", "r2n1.hpc", "r2n2.hpc"]),
        ("a,a,b", ["a", "b"]),
    ],
)
def test_hosts_of_a_list(text: str, hosts: list[str]) -> None:
    assert expanded_hosts(text) == hosts


@pytest.mark.parametrize(
    "text", ["", "a,,b", "gpu[", "gpu]1", "gpu[]", "gpu[a-b]", "gpu[3-1]", "a b", "n[1-99999]", "n[1-999]m[1-999]"]
)
def test_what_is_not_a_list(text: str) -> None:
    with pytest.raises(UsageError, match="--nodes"):
        expanded_hosts(text)
