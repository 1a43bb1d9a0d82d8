from __future__ import annotations

import pytest

from pulsed.model.node_names import shared_domain


@pytest.mark.parametrize(
    ("nodes", "domain"),
    [
        ([], ""),
        (["gpu01"], ""),
        (["gpu01.example.com"], ".example.com"),
        (["gpu01.example.com", "gpu02.example.com"], ".example.com"),
        (["gpu01.a.example.com", "gpu01.b.example.com"], ".example.com"),
        (["gpu01.example.com", "gpu02"], ""),
        (["example.com", "gpu02.example.com"], ".com"),
        (["10.0.0.1", "10.0.0.2"], ""),
        (["fe80::1", "gpu01.example.com"], ""),
    ],
)
def test_the_domain_that_all_nodes_share(nodes: list[str], domain: str) -> None:
    assert shared_domain(nodes) == domain
