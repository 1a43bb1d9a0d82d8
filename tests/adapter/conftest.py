"""The fixture of a real API server."""

from __future__ import annotations

from tests.kubernetes.api_servers import real, running_api_server

__all__ = ["real", "running_api_server"]
