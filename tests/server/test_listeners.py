from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pulsed.errors import ListenError
from pulsed.server.listeners import Listener, from_systemd, listen
from tests.support.daemon import free_port


def reaches(family: socket.AddressFamily, address: tuple[str, int] | str) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as client:
        return client.connect_ex(address) == 0


def close(listeners: list[Listener]) -> None:
    for listener in listeners:
        listener.close()


def test_addresses_of_every_kind_at_once(tmp_path: Path) -> None:
    path = tmp_path / "pulsed.sock"
    listeners = listen(["127.0.0.1:0", "[::1]:0", ":0", f"unix:{path}"])
    v4, v6, every, unix = listeners
    assert reaches(socket.AF_INET, v4.socket.getsockname())
    assert reaches(socket.AF_INET6, v6.socket.getsockname())
    port = every.socket.getsockname()[1]
    assert reaches(socket.AF_INET, ("127.0.0.1", port))
    assert reaches(socket.AF_INET6, ("::1", port))
    assert reaches(socket.AF_UNIX, str(path))
    assert v6.url(tls=True) == f"https://[::1]:{v6.socket.getsockname()[1]}"
    assert every.url(tls=False) == f"http://localhost:{port}"
    assert unix.url(tls=True) == f"unix:{path}"
    close(listeners)


def test_a_unix_socket_is_for_owner_and_group_and_goes_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "pulsed.sock"
    before = os.umask(0)
    try:
        listeners = listen([f"unix:{path}"])
        assert os.umask(0) == 0, "the process' mask is as it was"
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    close(listeners)
    assert not path.exists()


def test_a_socket_that_a_killed_daemon_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pulsed.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    listeners = listen([f"unix:{path}"])
    assert reaches(socket.AF_UNIX, str(path))
    close(listeners)


def test_a_socket_that_somebody_serves_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "pulsed.sock"
    first = listen([f"unix:{path}"])
    with pytest.raises(ListenError, match="Is another pulsed running"):
        listen([f"unix:{path}"])
    assert reaches(socket.AF_UNIX, str(path))
    close(first)


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("data")
    with pytest.raises(ListenError, match="cannot listen on unix:"):
        listen([f"unix:{path}"])
    assert path.read_text() == "data"


def test_what_somebody_put_in_its_place_stays(tmp_path: Path) -> None:
    path = tmp_path / "pulsed.sock"
    (old,) = listen([f"unix:{path}"])
    path.unlink()
    path.write_text("theirs")
    old.close()
    assert path.read_text() == "theirs"


def test_a_link_at_its_path_is_not_followed(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(tmp_path / "theirs"))
    (tmp_path / "pulsed.sock").symlink_to(tmp_path / "theirs")
    (tmp_path / "dangling.sock").symlink_to(tmp_path / "nothing")
    for name in ("pulsed.sock", "dangling.sock"):
        with pytest.raises(ListenError, match="Address already in use"):
            listen([f"unix:{tmp_path / name}"])
        assert (tmp_path / name).is_symlink()
    assert (tmp_path / "theirs").is_socket()
    assert not (tmp_path / "nothing").exists()


LISTEN_AS_NOBODY = """
import os, sys
from pulsed.server.listeners import listen
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
for path in sys.argv[1:]:
    try:
        for listener in listen([f"unix:{path}"]):
            print(oct(os.lstat(path).st_mode & 0o777))
            listener.close()
            print(os.path.lexists(path))
    except Exception as error:
        print(repr(error) if type(error).__name__ != "ListenError" else error)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become another user")
def test_another_user_cannot_replace_a_socket_that_is_not_theirs() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        shared, own = Path(name), Path(name) / "own"
        shared.chmod(0o1777)
        for mode in (0o600, 0o777):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
                left.bind(f"{shared}/{mode:o}.sock")
            (shared / f"{mode:o}.sock").chmod(mode)
        own.mkdir(mode=0o700)
        paths = [shared / "600.sock", shared / "777.sock", own / "pulsed.sock", shared / "pulsed.sock"]
        child = subprocess.run(
            [sys.executable, "-c", LISTEN_AS_NOBODY, *map(str, paths)], capture_output=True, text=True, check=True
        )
        remedy = "Let pulsed's user write to the folder and replace the socket"
        denied, not_permitted, closed_folder, *new = child.stdout.splitlines()
        assert f"600.sock: Permission denied. {remedy}" in denied
        assert f"777.sock: Operation not permitted. {remedy}" in not_permitted
        assert f"pulsed.sock: Permission denied. {remedy}" in closed_folder
        assert new == ["0o660", "False"]
        assert all(path.is_socket() for path in paths[:2])


@pytest.mark.parametrize(
    "address", ["unix:/no/such/folder/pulsed.sock", f"unix:/{'x' * 200}", "no.such.host.invalid:1"]
)
def test_what_cannot_be_taken_is_named(address: str) -> None:
    with pytest.raises(ListenError) as caught:
        listen([address])
    assert str(caught.value).startswith(f"cannot listen on {address}: ")


def test_all_addresses_or_none(tmp_path: Path) -> None:
    path, port = tmp_path / "pulsed.sock", free_port()
    with socket.create_server(("127.0.0.1", port)), pytest.raises(ListenError):
        listen([f"unix:{path}", f"127.0.0.1:{port}"])
    assert not path.exists()


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"LISTEN_PID": "1", "LISTEN_FDS": "1"},
        {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "0"},
        {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "many"},
    ],
)
def test_systemd_that_hands_over_nothing(environment: dict[str, str]) -> None:
    assert from_systemd(environment) == []
    assert environment == {}


TAKES_OVER = """
import os, socket, sys
from pulsed.errors import ListenError
from pulsed.server.listeners import from_systemd
kinds = {
    "stream": lambda: socket.create_server(("127.0.0.1", 0)),
    "datagram": lambda: socket.socket(type=socket.SOCK_DGRAM),
    "connected": lambda: socket.socketpair()[0],
    "file": lambda: open("/dev/null"),
}
made = [kinds[kind]() for kind in sys.argv[1:]]
for number, each in enumerate(made):
    os.dup2(each.fileno(), 20 + number)
for number in range(len(made)):
    os.dup2(20 + number, 3 + number)
environment = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(made)), "LISTEN_FDNAMES": "a:b", "HOME": "/"}
try:
    taken = from_systemd(environment)
    print([listener.url(tls=False)[:16] for listener in taken], environment, os.get_inheritable(3))
except ListenError as error:
    print(error)
os._exit(0)
"""


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        (["stream", "stream"], "['http://127.0.0.1', 'http://127.0.0.1'] {'HOME': '/'} False"),
        (["datagram"], "descriptor 3 of systemd is not a listening stream socket"),
        (["stream", "connected"], "descriptor 4 of systemd is not a listening stream socket"),
        (["file"], "descriptor 3 of systemd is not a socket"),
    ],
)
def test_sockets_of_systemd(kinds: list[str], said: str) -> None:
    """In a process of its own, whose descriptors are free to use."""
    finished = subprocess.run(
        [sys.executable, "-u", "-c", TAKES_OVER, *kinds], capture_output=True, text=True, check=True
    )
    assert finished.stdout.startswith(said), finished.stderr
