"""Settings of the source `exporter`: targets, and how to scrape them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult

from pulsed.model.raw_tick import MAX_GPUS

Login = tuple[str, str]
"""User name and password."""


@dataclass(frozen=True, slots=True)
class ExporterSettings:
    """How to scrape; the same for every target of a process.

    Attributes:
        timeout: seconds that one scrape may take, redirects and the last byte included; cut to the interval.
        max_page_bytes: size limit of a page, after decompression.
        max_gpus: most GPUs and MIG instances of a page.
        username: for HTTP basic authentication; a user in the target's URL goes before it.
        password_file: read anew for every scrape; goes before `password`.
        bearer_token_file: read anew for every scrape, because Kubernetes rotates such tokens; goes before all others.
        ca_file: PEM file of the only authorities to trust; empty: those of the system.
        key_file: key of the client certificate, unless the certificate file holds it.
        headers: sent with every request, before all that pulsed sends by itself.
    """

    interval: float = 15.0
    timeout: float = 10.0
    max_page_bytes: int = 16 * 2**20
    max_gpus: int = MAX_GPUS
    username: str = ""
    password: str = field(default="", repr=False)
    password_file: str = ""
    bearer_token: str = field(default="", repr=False)
    bearer_token_file: str = ""
    ca_file: str = ""
    insecure_skip_verify: bool = False
    cert_file: str = ""
    key_file: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def without_login(parts: SplitResult) -> str:
    """Return the URL without user, password and fragment."""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()
