from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from pulsed.errors import ConfigError
from pulsed.server.reloader import WebConfigReloader, check
from tests.server.test_web_config import HASH
from tests.support.certificates import make

WITH_TLS = "tls_server_config: {cert_file: server.crt, key_file: server.key}\n"
WITH_USER = f"basic_auth_users: {{alice: {HASH}}}\n"


def write(file: Path, text: str) -> None:
    """Replace a file as editors and Kubernetes do; the new one has another inode."""
    new = file.with_suffix(".new")
    new.write_text(text)
    os.replace(new, file)


def settle(live: WebConfigReloader) -> bool:
    """Refresh until a change counts; returns whether the last one could be used."""
    live.refresh()
    live.refresh()
    return live.last_reload_successful


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A web configuration with TLS, beside its certificate."""
    make("localhost").write(tmp_path, "server")
    path = tmp_path / "web.yml"
    path.write_text(WITH_TLS)
    return path


def test_a_change_is_taken_up_when_it_has_stood_still(tmp_path: Path) -> None:
    file = tmp_path / "web.yml"
    file.write_text("")
    live = WebConfigReloader(file)
    before = live.now
    settle(live)
    assert live.now is before, "nothing has changed"
    write(file, WITH_USER + "http_server_config: {headers: {X-Frame-Options: deny}}")
    live.refresh()
    assert live.now is before, "whoever writes may not be done"
    live.refresh()
    assert live.now.users is not None
    assert live.now.headers == ((b"x-frame-options", b"deny"),)
    assert live.last_reload_successful


def test_what_cannot_be_used_leaves_what_was_and_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "web.yml"
    file.write_text(WITH_USER)
    live = WebConfigReloader(file)
    before = live.now
    write(file, "basic_auth_users: {alice: hunter2}\nsauce: 1\n")
    with caplog.at_level(logging.INFO, "pulsed.server.reloader"):
        for _ in range(5):
            live.refresh()
    assert live.now is before
    assert not live.last_reload_successful
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "\n" not in str(vars(caplog.records[0])["error"])
    assert "hunter2" not in str(vars(caplog.records[0]))
    write(file, WITH_USER)
    assert settle(live)
    assert live.now is not before


def test_a_certificate_and_its_key_are_followed(file: Path) -> None:
    live = WebConfigReloader(file)
    before, other = live.now, make("localhost")
    write(file.with_name("server.crt"), other.cert_pem.decode())
    assert not settle(live)
    assert live.now is before, "a certificate without its key"
    write(file.with_name("server.key"), other.key_pem.decode())
    assert settle(live)
    assert live.now.context is not before.context


def test_a_file_that_appears_later_is_looked_for(file: Path) -> None:
    live = WebConfigReloader(file)
    before = live.now
    write(file, WITH_TLS.replace("server.crt", "next.crt").replace("server.key", "next.key"))
    settle(live)
    assert live.now is before
    make("localhost").write(file.parent, "next")
    assert settle(live)
    assert live.now is not before


def test_files_that_vanish_leave_what_was(file: Path) -> None:
    live = WebConfigReloader(file)
    before = live.now
    for name in ("server.key", "web.yml"):
        file.with_name(name).unlink()
        assert not settle(live)
        assert live.now is before


def test_tls_is_not_switched_off_under_way(file: Path) -> None:
    live = WebConfigReloader(file)
    write(file, WITH_USER)
    assert not settle(live)
    assert live.now.context is not None
    assert live.now.users is None


def test_at_start_there_is_nothing_to_fall_back_on(tmp_path: Path) -> None:
    file = tmp_path / "web.yml"
    file.write_text(WITH_TLS)
    for use in (WebConfigReloader, check):
        with pytest.raises(ConfigError, match=r"cannot read .*server\.crt"):
            use(file)
