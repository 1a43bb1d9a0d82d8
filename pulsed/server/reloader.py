"""The web configuration in force: read at start, and again whenever it or a file that it names changes.

A change that cannot be used leaves what was in force, is logged once, and shows in `last_reload_successful`.
"""

from __future__ import annotations

import logging
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from pulsed.errors import ConfigError
from pulsed.server.tls_context import make_context
from pulsed.server.users import Users
from pulsed.server.web_config import WebSettings, read

log = logging.getLogger(__name__)

Signature = tuple[tuple[int, int, int] | None, ...]
"""Of each file modification time, size and inode; None for one that is not there."""


@dataclass(frozen=True, slots=True)
class InForce:
    """What holds for new connections and requests.

    Attributes:
        context: None: plain HTTP.
        users: None: everybody may come in.
        headers: sent with every answer, in bytes.
    """

    settings: WebSettings
    context: ssl.SSLContext | None
    users: Users | None
    headers: tuple[tuple[bytes, bytes], ...]


class WebConfigReloader:
    """A web configuration file that is kept up with.

    Args:
        file: the file of `--web.config.file`.

    Attributes:
        now: what is in force.
        last_reload_successful: whether that is what the files say.

    Raises:
        ConfigError: the file, or one that it names, cannot be used.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._names: tuple[str, ...] = (str(file),)
        self.last_reload_successful = True
        self.now = self._load()
        self._seen = self._loaded = self._signature()

    def refresh(self) -> None:
        """Look at the files, and take up what has changed and has stayed so since the last look.

        Meant to be called once a second: certificate and key are two files, and whoever replaces them is not done
        after the first.
        """
        signature = self._signature()
        settled, self._seen = signature == self._seen, signature
        if settled and signature != self._loaded:
            self._loaded = signature
            self._reload()

    def _reload(self) -> None:
        names = self._names
        try:
            new = self._load()
            if (new.context is None) != (self.now.context is None):
                raise ConfigError("switching TLS on or off needs a restart", "Restart pulsed")
        except ConfigError as error:
            self.last_reload_successful = False
            log.error(
                "web configuration refused, the one before stays in force",
                extra={"file": self._file, "error": "; ".join(str(error).splitlines())},
            )
        else:
            self.now, self.last_reload_successful = new, True
            log.info("web configuration read again", extra={"file": self._file})
        if self._names != names:
            self._seen = self._loaded = self._signature()

    def _load(self) -> InForce:
        settings = read(self._file)
        self._names = (str(self._file), *settings.files())  # also if one is bad: it may be replaced
        return _in_force(settings)

    def _signature(self) -> Signature:
        return tuple(_signature_of(name) for name in self._names)


def check(file: Path) -> None:
    """Read a web configuration file and all that it names.

    Raises:
        ConfigError: it cannot be used.
    """
    _in_force(read(file))


def _in_force(settings: WebSettings) -> InForce:
    return InForce(
        settings,
        make_context(settings.tls) if settings.tls else None,
        Users(settings.users) if settings.users else None,
        tuple((name.lower().encode(), value.encode("latin-1")) for name, value in settings.headers),
    )


def _signature_of(name: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(name)
    except (OSError, ValueError):  # a name with a zero byte
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
