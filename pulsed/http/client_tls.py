"""The TLS of clients: authorities and a certificate in files, which are renewed while the process runs."""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator

from pulsed.regular_file import FileTooLarge, FileWatcher, open_regular

MAX_BYTES = 16 * 2**20
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
        ca_file: PEM file of the only authorities to trust; empty: those of the system.
        cert_file: PEM file of the client's certificate; empty: none.
        key_file: its key, unless the certificate's file has it.
        is_verified: whether the certificate of the server is verified.
    """

    def __init__(self, ca_file: str = "", cert_file: str = "", key_file: str = "", *, is_verified: bool = True) -> None:
        self._ca_file, self._cert_file, self._key_file, self._is_verified = ca_file, cert_file, key_file, is_verified
        self._files = [file for file in (ca_file, cert_file, key_file) if file]
        self._watcher: FileWatcher | None = None
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """Return the context; raises `BadTlsFiles`."""
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
                    context.load_cert_chain(cert_file, key_file, password=lambda: "")  # else OpenSSL asks the terminal
        except (OSError, ssl.SSLError) as error:
            raise BadTlsFiles(", ".join(self._files), error.strerror or str(error)) from error
        self._context = context
        return context


@contextlib.contextmanager
def _opened(file: str) -> Iterator[str | None]:
    """Yield another name of a file, if one is given: OpenSSL takes names only, and would wait for a FIFO."""
    if not file:
        yield None
        return
    descriptor = open_regular(file)
    try:
        if os.fstat(descriptor).st_size > MAX_BYTES:
            raise FileTooLarge(file, MAX_BYTES)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
