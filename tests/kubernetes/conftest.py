"""Fixtures of API servers."""

from __future__ import annotations

from tests.kubernetes.api_servers import cluster, real, running_api_server

__all__ = ["cluster", "real", "running_api_server"]
