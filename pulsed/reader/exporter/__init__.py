"""The source `exporter`: pages over HTTP, and files. Here are its settings: targets, and how to scrape them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from pulsed.config.settings import Entry, ListKind, Problem, is_text, setting
from pulsed.config.values import Duration, FileName, Secret, SecretFileName, Size, Switch, Text, is_path, not_empty
from pulsed.errors import ConfigError
from pulsed.http.credentials import BadCredentials, authorization, read_password, unusable_files
from pulsed.kubernetes.settings import ALL_NAMESPACES, ExporterPodSettings
from pulsed.model.gpu import LABEL_NAME, RESERVED_LABELS
from pulsed.reader.source import SourceSection

TIMEOUT_SECONDS = 10.0

Login = tuple[str, str]
"""User name and password."""


MAX_LABELS, MAX_LABEL_LENGTH = 32, 256
"""Limits of a target: number and length of its labels, which all series of its GPUs have."""

_LABEL = re.compile(LABEL_NAME)


@dataclass(frozen=True, slots=True)
class ExporterTarget(Entry):
    """An exporter to scrape.

    Attributes:
        url: or the name of a saved page.
        labels: of all series of its GPUs, by name.
    """

    url: str = field(repr=False)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def written(self) -> object:
        """The URL, with labels in a mapping."""
        return {"url": self.url, "labels": self.labels} if self.labels else self.url


def _target(value: str | Mapping[str, object]) -> ExporterTarget:
    """Return a target, written as its URL or as a mapping."""
    if isinstance(value, str):
        return ExporterTarget(_page(value))
    if unknown := value.keys() - {"url", "labels"}:
        raise ValueError(f"has the unknown key {min(unknown)[:80]}")
    url, labels = value.get("url"), value.get("labels") or {}
    if not isinstance(url, str) or not is_text(url):
        raise ValueError("has no url")
    if not isinstance(labels, dict) or not all(map(is_text, labels.values())):
        raise ValueError("has labels that are not texts by name")
    if len(labels) > MAX_LABELS:
        raise ValueError(f"has more than {MAX_LABELS} labels")
    for name, text in labels.items():
        if not _LABEL.fullmatch(name) or name.startswith("__"):
            raise ValueError(f"has the label {name[:80]!r}, which is not a name of a label")
        if name in RESERVED_LABELS:
            raise ValueError(f"has the label {name}, which the series of GPUs have themselves")
        if len(text) > MAX_LABEL_LENGTH:
            raise ValueError(f"has the label {name} with more than {MAX_LABEL_LENGTH} characters")
    return ExporterTarget(_page(url), {name: text for name, text in sorted(labels.items()) if text})


def _once(targets: tuple[ExporterTarget, ...]) -> tuple[ExporterTarget, ...]:
    """Return the targets, which must be unique."""
    urls = [target.url for target in targets]
    if len(set(urls)) < len(urls):
        first = next(number for number, url in enumerate(urls) if url in urls[:number])
        raise ValueError(f"has the target number {urls.index(urls[first]) + 1} again as number {first + 1}")
    return targets


def _page(value: str) -> str:
    """Return the URL of an exporter or the name of a saved page."""
    if is_path(value):
        return not_empty(value)
    try:
        parts = urlsplit(value)
        usable = parts.path if parts.scheme == "file" else parts.hostname and parts.port != 0
    except ValueError:  # a bad bracket, or a port that is not a number
        raise ValueError("is not a URL") from None
    if parts.scheme not in ("http", "https", "file"):
        raise ValueError("does not begin with http:// or https://")
    if not usable:
        raise ValueError("names no host")
    return value


Targets = Annotated[
    tuple[ExporterTarget, ...],
    ListKind(
        "target",
        "a URL such as http://localhost:9400/metrics, the name of a saved page, or {url: URL, labels: {rack: r1}}; one "
        "or a list of them",
        _target,
        "file",
        text_entries=("labels",),
        least=1,
        check=_once,
    ),
]


@dataclass(frozen=True, slots=True)
class ExporterSettings(SourceSection):
    """Which exporters to scrape, and how.

    A user in the URL of a target goes before `username`, a file before the text without `_file`, a bearer token before
    all others.

    Attributes:
        headers: sent with every request, before all that pulsed sends by itself.
    """

    does: ClassVar[str] = "scrapes dcgm-exporters"
    min_interval: ClassVar[float] = 1.0
    is_candidate: ClassVar[bool] = True

    targets: Targets = setting(
        (ExporterTarget("http://localhost:9400/metrics"),),
        "URLs, or files of saved pages; `{url: URL, labels: {rack: r1}}` adds labels to all series of its GPUs. A "
        "change of the file restarts only the targets that it changes. Credentials in a URL are used for that target "
        "and never shown.",
        hidden=True,
    )
    own_node: Switch = setting(
        False,
        "Refuse pages of `targets` with GPUs of another host than `node`.",
    )
    discovery: Literal["static", "kubernetes"] = setting(
        "static",
        "`static` reads `targets`, `kubernetes` pods. Counters continue for targets that return within 10 minutes.",
    )
    kubernetes: ExporterPodSettings = setting(ExporterPodSettings(), "For `discovery: kubernetes`.")
    timeout: Duration | None = setting(
        None,
        f"Timeout of a scrape, at most the interval. Unset: {TIMEOUT_SECONDS:g}s or the interval, whichever is "
        "shorter.",
        example="10s",
    )
    max_page_bytes: Size = setting(16 * 2**20, "Size limit of a decompressed page. A target with a larger one fails.")
    username: Text | None = setting(
        None, "Basic authentication, for targets without credentials in the URL.", example="pulsed"
    )
    password: Secret | None = setting(None, "Its password.", example="secret", hidden=True)
    password_file: SecretFileName | None = setting(
        None, "File with the password, read for every scrape.", example="/etc/pulsed/password"
    )
    bearer_token: Secret | None = setting(
        None, "Bearer token, instead of user and password.", example="secret", hidden=True
    )
    bearer_token_file: SecretFileName | None = setting(
        None,
        "File with the token, read for every scrape.",
        example="/var/run/secrets/kubernetes.io/serviceaccount/token",
    )
    ca_file: FileName | None = setting(
        None, "PEM file of trusted authorities. Unset: the system's.", example="/etc/pulsed/ca.pem"
    )
    cert_file: FileName | None = setting(None, "PEM file of the client certificate.", example="/etc/pulsed/client.pem")
    key_file: SecretFileName | None = setting(
        None, "PEM file of its key. Unset: in `cert_file`.", example="/etc/pulsed/client.key"
    )
    server_name: Text | None = setting(
        None, "Name that the server's certificate is for. Unset: the host of the URL.", example="exporter.example.org"
    )
    insecure_skip_verify: Switch = setting(False, "Accept any server certificate.")

    interval: float = field(default=15.0, kw_only=True)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def problems(self) -> Iterator[Problem]:
        """Find what contradicts itself among the credentials."""
        for one, other in (
            ("password", "password_file"),
            ("bearer_token", "bearer_token_file"),
            ("username", "bearer_token"),
            ("username", "bearer_token_file"),
        ):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                yield other, f"cannot be set together with {one}; set one of them"
        has_password = self.password is not None or self.password_file is not None
        if self.username is not None and not has_password:
            yield "username", "needs a password too; set password or password_file"
        if self.username is None and has_password:
            key = "password" if self.password is not None else "password_file"
            yield key, "needs a user too; set username"
        if self.key_file is not None and self.cert_file is None:
            yield "key_file", "needs its certificate too; set cert_file"
        if self.discovery == "kubernetes" and self.kubernetes.namespaces == ALL_NAMESPACES:
            for key in self.credentials:
                yield key, "would be sent to any pod with the labels of an exporter; name kubernetes.namespaces"

    def without_effect(self) -> Iterator[Problem]:
        """Yield what another way to find the targets would need."""
        if self.discovery == "static":
            yield "kubernetes", "it needs discovery: kubernetes"
        else:
            for key in ("targets", "own_node"):
                yield key, f"it needs discovery: static, and that is {self.discovery}"

    def completed(self, interval: float | None, max_gpus: int) -> ExporterSettings:
        """Return the section with the settings of all kinds, without an interval that was given for another kind."""
        is_possible = interval is not None and interval >= self.min_interval
        return super(ExporterSettings, self).completed(interval if is_possible else None, max_gpus)

    @property
    def scrape_timeout(self) -> float:
        """Seconds after which a scrape has failed: at most the interval."""
        return min(TIMEOUT_SECONDS if self.timeout is None else self.timeout, self.interval)

    @property
    def credentials(self) -> Sequence[str]:
        """The keys of the credentials that are set."""
        keys = ("username", "bearer_token", "bearer_token_file", "cert_file")
        return [key for key in keys if getattr(self, key) is not None]

    def unusable(self) -> Iterator[Problem]:
        """Yield targets that are not files, and credentials that cannot be read."""
        for number, target in enumerate(self.targets):
            if is_path(target.url) and not os.path.isfile(target.url):
                host = os.path.basename(target.url)
                yield (
                    f"targets[{number}]",
                    f"{target.url} is not a file; for an exporter, write http://{host}:9400/metrics",
                )
        secrets = {
            "password_file": lambda: self.password_file and read_password(self.password_file),
            "bearer_token_file": lambda: authorization("", self.bearer_token_file),
        }
        yield from unusable_files(secrets, self.ca_file, self.cert_file, self.key_file)

    def check_password_file(self) -> None:
        """Raise `ConfigError` if there is a file with the password that cannot be read."""
        if self.password_file is None:
            return
        try:
            read_password(self.password_file)
        except BadCredentials as error:
            raise ConfigError(
                f"source.exporter.password_file: {error}", "Name a file that pulsed's user may read"
            ) from None
