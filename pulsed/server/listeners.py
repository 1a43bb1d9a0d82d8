"""Where to listen: TCP addresses, Unix sockets, sockets that systemd passes."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pulsed.errors import ListenError
from pulsed.server.settings import UNIX

BACKLOG = 512
FIRST_DESCRIPTOR = 3
"""Of the sockets of systemd (sd_listen_fds(3))."""

UNIX_MASK = 0o117
"""A Unix socket is for its owner and group."""

_REMEDIES = {
    errno.EADDRINUSE: "Is another pulsed running? Choose another address with --web.listen-address",
    errno.EACCES: "Ports below 1024 need CAP_NET_BIND_SERVICE; choose another address with --web.listen-address",
    errno.ENOENT: "Create the folder of the socket, or choose another path with --web.listen-address",
}
_UNIX_REMEDY = (
    "Let pulsed's user write to the folder and replace the socket, or choose another path with --web.listen-address"
)
_OTHERWISE = "Choose an address of this host with --web.listen-address"


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening socket; `path` is the file of a Unix socket to remove at the end, with its inode."""

    socket: socket.socket
    path: tuple[Path, int] | None = None

    def close(self) -> None:
        """Stop listening, and remove the socket's file unless another process has replaced it."""
        self.socket.close()
        if self.path is not None:
            path, inode = self.path
            with contextlib.suppress(OSError):
                if path.lstat().st_ino == inode:
                    path.unlink()

    def url(self, *, tls: bool) -> str:
        """Return the URL for clients."""
        name = self.socket.getsockname()
        if self.socket.family == socket.AF_UNIX:
            return f"{UNIX}{name}"
        host, port = name[:2]
        if host in ("::", "0.0.0.0"):
            host = "localhost"
        return f"http{'s' * tls}://{f'[{host}]' if ':' in host else host}:{port}"


def listen(addresses: Sequence[str]) -> list[Listener]:
    """Return listeners on all addresses, or raise `ListenError` and keep none."""
    listeners: list[Listener] = []
    try:
        for address in addresses:
            listener = _unix(address) if address.startswith(UNIX) else Listener(_tcp(address))
            listeners.append(listener)
    except ListenError:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def from_systemd(environment: MutableMapping[str, str]) -> list[Listener]:
    """Return the sockets that systemd passes; remove its variables, which are not for child processes.

    Raises `ListenError` if one is not a listening stream socket.
    """
    process, count, _ = (environment.pop(name, "") for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"))
    if process != str(os.getpid()) or not count.isdecimal():
        return []
    return [Listener(_inherited(FIRST_DESCRIPTOR + number)) for number in range(int(count))]


def _inherited(descriptor: int) -> socket.socket:
    try:
        sock = socket.socket(fileno=descriptor)
        listens = sock.type == socket.SOCK_STREAM and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise ListenError(f"descriptor {descriptor} of systemd is not a socket: {error.strerror}") from None
    if not listens:
        raise ListenError(
            f"descriptor {descriptor} of systemd is not a listening stream socket",
            "Use ListenStream= in the .socket unit",
        )
    sock.set_inheritable(False)
    return sock


def _tcp(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        if host:
            resolved = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
            return socket.create_server(resolved[4], family=resolved[0], backlog=BACKLOG)
        if socket.has_dualstack_ipv6():
            with contextlib.suppress(OSError):
                return socket.create_server(
                    ("::", int(port)), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG
                )
        return socket.create_server(("", int(port)), backlog=BACKLOG)
    except OSError as error:
        raise _listen_error(address, error) from error


def _unix(address: str) -> Listener:
    path = Path(address.removeprefix(UNIX))
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        before = os.umask(UNIX_MASK)
        try:
            listening.bind(str(path))
        finally:
            os.umask(before)
        listening.listen(BACKLOG)
        return Listener(listening, (path, path.lstat().st_ino))
    except OSError as error:
        listening.close()
        raise _listen_error(address, error) from error


def _listen_error(address: str, error: OSError) -> ListenError:
    # `create_server` adds the address to the text; names that cannot be resolved have a code of their own.
    number = None if isinstance(error, socket.gaierror) else error.errno
    reason = os.strerror(number) if number else error.strerror or str(error)
    is_denied_path = address.startswith(UNIX) and number in (errno.EACCES, errno.EPERM)
    remedy = _UNIX_REMEDY if is_denied_path else _REMEDIES.get(number or 0, _OTHERWISE)
    return ListenError(f"cannot listen on {address}: {reason}", remedy)


def _remove_stale(path: Path) -> None:
    """Remove a socket without a listener, left by a daemon that was killed."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return  # not a stale socket; bind reports the error
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()
