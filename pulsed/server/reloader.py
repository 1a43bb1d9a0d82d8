"""The web configuration in force: loaded at start, and again when it or a file that it names changes.

A change that is not valid is logged once, shows in `last_reload_successful`, and leaves the configuration in force.
The files may be on a file system that hangs: they are looked at in a thread.
"""

from __future__ import annotations

import logging
import ssl
import time
from dataclasses import dataclass
from pathlib import Path

from pulsed.daemon_thread import DaemonThread, ThreadCall
from pulsed.errors import ConfigError
from pulsed.regular_file import FileWatcher
from pulsed.server.tls_context import make_context
from pulsed.server.users import Users
from pulsed.server.web_config import WebConfig, WebSettings, read

log = logging.getLogger(__name__)

HANGING_SECONDS = 10.0
"""A file system that takes longer to answer is reported."""


@dataclass(frozen=True, slots=True)
class InForce:
    """The settings of new connections and requests; without a context plain HTTP, without users open to all."""

    settings: WebSettings
    context: ssl.SSLContext | None
    users: Users | None
    headers: tuple[tuple[bytes, bytes], ...]


class WebConfigReloader:
    """Loads a web configuration file, and reloads it when it changes. Raises `ConfigError` for invalid files.

    Attributes:
        now: the settings in force.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._names: tuple[str, ...] = (str(file),)
        self._is_valid, self._is_hanging = True, False
        self.now = self._load()
        self._watcher = FileWatcher(self._names)
        self._thread = DaemonThread("web configuration")
        self._call: ThreadCall[None] | None = None
        self._begun = 0.0

    @property
    def last_reload_successful(self) -> bool:
        """Whether the settings match the files."""
        return self._is_valid and not self._is_hanging

    def poll(self) -> None:
        """Refresh in a thread, unless the last refresh has not ended. Called every `WATCH_SECONDS`."""
        if self._call is None or self._call.result.done():
            self._is_hanging, self._begun = False, time.monotonic()
            self._call = self._thread.submit(self.refresh)
        elif not self._is_hanging and time.monotonic() - self._begun > HANGING_SECONDS:
            self._is_hanging = True
            log.error("the file system of the web configuration does not answer", extra={"file": self._file})

    def close(self) -> None:
        """End the thread."""
        self._thread.close()

    def refresh(self) -> None:
        """Reload the files if they have changed."""
        if self._watcher.has_changed():
            self._reload()

    def _reload(self) -> None:
        names = self._names
        try:
            new = self._load()
            if (new.context is None) != (self.now.context is None):
                raise ConfigError("switching TLS on or off needs a restart", "Restart pulsed")
        except ConfigError as error:
            self._is_valid = False
            log.error(
                "the web configuration is not valid; the previous one remains active",
                extra={"file": self._file, "error": "; ".join(str(error).splitlines())},
            )
        else:
            self.now, self._is_valid = new, True
            log.info("web configuration reloaded", extra={"file": self._file})
        if self._names != names:
            self._watcher.watch(self._names)

    def _load(self) -> InForce:
        web = read(self._file)
        self._names = (str(self._file), *web.files())  # also if one is not valid: it may be replaced
        return _in_force(web)


def check(file: Path) -> WebConfig:
    """Return a web configuration, validated with the files that it names; raises `ConfigError`."""
    web = read(file)
    _in_force(web)
    return web


def _in_force(web: WebConfig) -> InForce:
    settings = web.settings
    return InForce(
        settings,
        make_context(web),
        Users(settings.basic_auth_users) if settings.basic_auth_users else None,
        tuple(
            (name.lower().encode(), value.encode("latin-1"))
            for name, value in settings.http_server_config.headers.items()
        ),
    )
