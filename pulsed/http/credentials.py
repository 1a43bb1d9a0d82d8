"""Credentials of requests, from files that may be renewed at any time: users, tokens, certificates of TLS; URLs without
them.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pulsed.regular_file import FileTooLarge, FileWatcher, open_regular, read_regular

if TYPE_CHECKING:
    import ssl


MAX_BYTES = 64 * 1024

_SCHEME = re.compile("(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
_SECRET = re.compile("token|secret|passw|key|auth|sig", re.IGNORECASE)


class BadCredentials(Exception):
    """A file without usable credentials; the text has the file and the reason, and not its content."""


def read_token(path: str) -> str:
    """Return the bearer token in a file, without white space around it.

    Raises:
        BadCredentials: the file cannot be read, is empty, or holds more than one word of printable ASCII.
    """
    token = _read(path, "bearer token", "ascii").strip()
    if not token or not token.isprintable() or " " in token:
        raise BadCredentials(f"bearer token file {path} holds no token")
    return token


def read_password(path: str) -> str:
    """Return the password in a file, without line breaks at its end.

    Raises:
        BadCredentials: the file cannot be read, or is not UTF-8.
    """
    return _read(path, "password", "utf-8").rstrip("\r\n")


def basic_authorization(username: str, password: str) -> str:
    """Return the header Authorization of HTTP basic authentication."""
    return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"


def authorization(url: str, token_file: str | None) -> dict[str, str]:
    """Return the header Authorization for a bearer token, or the login of a URL; empty without either.

    Raises:
        BadCredentials: the file of the token cannot be used.
    """
    if token_file:
        return {"Authorization": f"Bearer {read_token(token_file)}"}
    parts = urlsplit(url)
    if parts.username is None:
        return {}
    return {"Authorization": basic_authorization(unquote(parts.username), unquote(parts.password or ""))}


def without_login(url: str) -> str:
    """Return the URL without user, password and fragment; raises `ValueError` if it is not a URL."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()


def url_host(host: str) -> str:
    """Return a host name or address as URLs have it: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def may_have_credentials(url: str, other_url: str) -> bool:
    """Return whether credentials of one URL may go to the other: same origin, or https on usual ports."""
    ours, other = urlsplit(url), urlsplit(other_url)
    default = {"http": 80, "https": 443}
    origin = (ours.scheme, ours.hostname, ours.port or default.get(ours.scheme))
    other_origin = (other.scheme, other.hostname, other.port or default.get(other.scheme))
    return origin == other_origin or (
        origin == ("http", ours.hostname, 80) and other_origin == ("https", ours.hostname, 443)
    )


def masked(url: str) -> str:
    """Return the URL as a person may see it: login, and what looks like a secret in the query, replaced by `***`.

    Its scheme may be missing.
    """
    url, number_sign, fragment = url.partition("#")
    url, question_mark, query = url.partition("?")
    before, login, host = url.rpartition("@")  # the last @: a password may hold an unescaped slash
    scheme = _SCHEME.match(before)
    shown = f"{scheme[0] if scheme else ''}***@{host}" if login else url
    return f"{shown}{question_mark}{'&'.join(map(_masked, query.split('&')))}{number_sign}{fragment}"


MAX_FOREIGN_URL = 300


def masked_foreign(url: str) -> str:
    """Return a URL that a server has sent, as `masked` does, and cut: a header has up to 64 KiB."""
    shown = masked(url)
    return shown if len(shown) <= MAX_FOREIGN_URL else f"{shown[:MAX_FOREIGN_URL]}..."


def _masked(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    return f"{name}=***" if equals and _SECRET.search(name) else parameter


def _read(path: str, kind: str, encoding: str) -> str:
    try:
        return read_regular(path, MAX_BYTES).decode(encoding)
    except OSError as error:
        raise BadCredentials(f"cannot read the {kind} file {path}: {error.strerror}") from error
    except ValueError as error:  # the text of an encoding error repeats the content
        reason = f"it is not {encoding.upper()} text" if isinstance(error, UnicodeError) else str(error)
        raise BadCredentials(f"cannot read the {kind} file {path}: {reason}") from None


MAX_PEM_BYTES = 16 * 2**20
"""Size limit of a file; all authorities of a system are some 0.2 MB."""


class BadTlsFiles(Exception):
    """The files of a TLS context cannot be used.

    Attributes:
        files: their names, with commas between them.
        reason: why.
    """

    def __init__(self, files: str, reason: str) -> None:
        super().__init__(f"{files}: {reason}")
        self.files, self.reason = files, reason


class ClientTls:
    """The TLS context of a client, made again when its files have changed and are complete.

    Args:
        ca_file: PEM file of the only authorities to trust; empty: the system's authorities.
        cert_file: PEM file of the client's certificate; empty: none.
        key_file: its key, unless the certificate's file has it.
        is_verified: whether the certificate of the server is verified.
        server_name: that its certificate is for; empty: the host of the URL.
    """

    def __init__(
        self,
        ca_file: str = "",
        cert_file: str = "",
        key_file: str = "",
        *,
        is_verified: bool = True,
        server_name: str = "",
    ) -> None:
        self.server_name = server_name
        self._ca_file, self._cert_file, self._key_file, self._is_verified = ca_file, cert_file, key_file, is_verified
        self._files = [file for file in (ca_file, cert_file, key_file) if file]
        self._watcher: FileWatcher | None = None
        self._context: ssl.SSLContext | None = None
        self._anonymous: ClientTls | None = None

    @property
    def made(self) -> ssl.SSLContext | None:
        """The context, where it was made and no file can change it."""
        return None if self._files else self._context

    @property
    def files(self) -> str:
        """Names of the files, with commas between them."""
        return ", ".join(self._files)

    def for_another_server(self) -> ClientTls:
        """Return the same for another server: without a certificate of the client, and by the host of the URL."""
        if not self._cert_file and not self.server_name:
            return self
        if self._anonymous is None:
            self._anonymous = ClientTls(self._ca_file, is_verified=self._is_verified)
        return self._anonymous

    def context(self) -> ssl.SSLContext:
        """Return the context; raises `BadTlsFiles`."""
        import ssl  # plain HTTP does not need it

        if self._context is not None and self._watcher is not None and not self._watcher.has_changed():
            return self._context
        self._context, self._watcher = None, FileWatcher(self._files)  # from before they are read
        try:
            with contextlib.ExitStack() as stack:
                ca_file, cert_file, key_file = (
                    stack.enter_context(_opened(file)) for file in (self._ca_file, self._cert_file, self._key_file)
                )
                context = ssl.create_default_context(cafile=ca_file)
                if not self._is_verified:
                    context.check_hostname = False
                    context.verify_mode = ssl.CERT_NONE
                if cert_file:
                    # without a password function OpenSSL prompts on the terminal
                    context.load_cert_chain(cert_file, key_file, password=lambda: "")
        except OSError as error:
            raise BadTlsFiles(self.files, error.strerror or str(error)) from error
        self._context = context
        return context


def unusable_files(
    secrets: Mapping[str, Callable[[], object]],
    ca_file: str | None,
    cert_file: str | None = None,
    key_file: str | None = None,
    advice: str = "name PEM files that belong together",
) -> Iterator[tuple[str, str]]:
    """Yield the keys of a configuration whose files cannot be used, why, and what to do.

    Args:
        secrets: by key, reads the file of a secret.
        advice: what to do about files of TLS.
    """
    for key, read in secrets.items():
        try:
            read()
        except BadCredentials as error:
            yield key, f"{error}; name a file that pulsed's user may read"
    for key, file, tls in (
        ("ca_file", ca_file, ClientTls(ca_file or "")),
        ("cert_file", cert_file, ClientTls("", cert_file or "", key_file or "")),
    ):
        try:
            if file is not None:
                tls.context()
        except BadTlsFiles as error:
            yield key, f"{error.files} cannot be used: {error.reason}; {advice}"


@contextlib.contextmanager
def _opened(file: str) -> Iterator[str | None]:
    """Yield another name of a file, if one is given: OpenSSL takes names only, and would wait for a FIFO."""
    if not file:
        yield None
        return
    descriptor = open_regular(file)
    try:
        if os.fstat(descriptor).st_size > MAX_PEM_BYTES:
            raise FileTooLarge(file, MAX_PEM_BYTES)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
