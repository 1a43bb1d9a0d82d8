"""A daemon whose files are on a file system that stops answering, as NFS does without its server."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.certificates import make
from tests.support.daemon import Daemon, serving
from tests.support.exporters import Exporter, exporting, page
from tests.support.kubernetes.fake_api_server import FakeApiServer
from tests.support.recorded_jobs import INTERVAL, JobRecord, replay_arguments
from tests.support.tools import shared_library
from tests.support.waiting import until
from tests.system.end_to_end.test_kubernetes import variables
from tests.system.end_to_end.test_report import BUSY, IDLE

SOURCE = Path(__file__).parents[2] / "support/attacks/hanging_files.c"
MESSAGE = "its file system does not answer"


class Disk:
    """A folder whose file system can be made to hang."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._flag, self.reached = folder / "nfs", folder / "hangs", folder / "hangs.reached"
        self.folder.mkdir()
        library = shared_library(SOURCE, folder / "hanging.so", "-ldl")
        self.environment = {"LD_PRELOAD": str(library), "HANGS": str(self._flag), "HANGING": str(self.folder)}

    def file(self, name: str, text: str = "secret") -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def hang(self) -> None:
        self._flag.touch()

    def answer(self) -> None:
        self._flag.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def lives(daemon: Daemon, disk: Disk, message: str = MESSAGE, code: int = 0) -> None:
    """Assert that a daemon answers while the file system hangs, names it, and ends."""
    until(disk.reached.exists)
    for _ in range(5):
        for path in ("/-/healthy", "/metrics", "/health/gpus"):
            assert daemon.get(path).status == 200
    until(lambda: message in daemon.log())
    assert daemon.stop() == code


@pytest.mark.parametrize("key", ["bearer_token_file", "password_file", "ca_file"])
def test_of_an_exporter(tmp_path: Path, disk: Disk, key: str) -> None:
    text = make("localhost").cert_pem.decode() if key == "ca_file" else "secret"
    exporter: dict[str, object] = {key: str(disk.file("file", text)), "timeout": "1s"}
    if key == "password_file":
        exporter["username"] = "u"
    with exporting({"metrics": Exporter(page(0, 0.5))}) as url:
        target = url.replace("http:", "https:") if key == "ca_file" else url
        exporter["targets"] = [f"{target}metrics"]
        source = json.dumps({"kind": "exporter", "interval": 1, "exporter": exporter})
        with serving(tmp_path, f"--set=source={source}", ready=False, **disk.environment) as daemon:
            until(lambda: "pulsed_source_up{" in daemon.get("/metrics").text)
            disk.hang()
            lives(daemon, disk)


@pytest.mark.parametrize("name", ["token_file", "ca_file"])
def test_of_the_api_server(tmp_path: Path, disk: Disk, name: str) -> None:
    fake = FakeApiServer(tmp_path)
    with fake.running() as url:
        file = shutil.copy(getattr(fake, name), disk.folder)
        environment = variables(fake, url) | {f"PULSED_KUBERNETES__{name.upper()}": str(file)}
        disk.hang()
        with serving(tmp_path, ready=False, **environment, **disk.environment) as daemon:
            lives(daemon, disk)


def arguments_of_a_job(folder: Path) -> tuple[str, ...]:
    """Return arguments of a daemon that notifies the owner of a job with an idle GPU."""
    record = JobRecord(["gpu1"])
    for number in range(int(90 * 60 / INTERVAL)):
        record.tick("gpu1", number, "4711", [BUSY, BUSY if number * INTERVAL < 600.0 else IDLE])
    return replay_arguments(record.save(folder / "jobs.rec"))


@pytest.mark.slow
@pytest.mark.parametrize("key", ["url_file", "bearer_token_file"])
def test_of_a_webhook(tmp_path: Path, disk: Disk, key: str) -> None:
    webhook = {key: str(disk.file("file", "http://127.0.0.1:9/")), "url": "http://127.0.0.1:9/"}
    if key == "url_file":
        del webhook["url"]
    arguments = (*arguments_of_a_job(tmp_path), f"--set=notify.webhook={json.dumps(webhook)}")
    disk.hang()
    with serving(tmp_path, *arguments, ready=True, **disk.environment) as daemon:
        lives(daemon, disk)


@pytest.mark.slow
def test_of_a_program_that_is_notified(tmp_path: Path, disk: Disk) -> None:
    hook = disk.file("hook", "#!/bin/sh\nexit 1\n")  # a notification that comes too early is sent again
    hook.chmod(0o755)
    arguments = (*arguments_of_a_job(tmp_path), f"--set=notify.exec={json.dumps([str(hook)])}")
    with serving(tmp_path, *arguments, ready=True, **disk.environment) as daemon:
        disk.hang()
        lives(daemon, disk, "")


@pytest.mark.parametrize("key", ["web.config_file", "attribution.jobs.directories", "state_dir"])
def test_of_what_is_looked_at_again_and_again(tmp_path: Path, disk: Disk, key: str) -> None:
    values = {
        "web.config_file": disk.file("web.yml", "basic_auth_users: {}\n"),
        "attribution.jobs.directories": json.dumps([str(disk.folder)]),
        "state_dir": disk.folder / "state",
    }
    with exporting({"metrics": Exporter(page(0, 0.5))}) as url:
        source = json.dumps({"kind": "exporter", "interval": 1, "exporter": {"targets": [f"{url}metrics"]}})
        options = (f"--set=source={source}", f"--set={key}={values[key]}")
        with serving(tmp_path, *options, ready=True, **disk.environment) as daemon:
            disk.hang()
            lives(daemon, disk, "", code=1 if key == "state_dir" else 0)


def test_of_the_kernel_log(tmp_path: Path, disk: Disk) -> None:
    log = disk.file("kern.log", "")
    with serving(tmp_path, "--source=demo", f"--set=health.kernel_log={log}", ready=True, **disk.environment) as daemon:

        def newest() -> str:
            time: str = daemon.get("/gpus").json()["gpus"][0]["time"]
            return time

        disk.hang()
        until(disk.reached.exists)
        before = newest()
        until(lambda: newest() > before)
        lives(daemon, disk)


@contextlib.contextmanager
def configured(folder: Path, disk: Disk) -> Iterator[Daemon]:
    file = disk.file("pulsed.yaml", "source: {kind: demo}\n")
    arguments = ("--config", str(file), "--web.enable-lifecycle")
    with serving(folder, *arguments, ready=True, **disk.environment) as daemon:
        yield daemon


def test_of_the_configuration(tmp_path: Path, disk: Disk) -> None:
    with configured(tmp_path, disk) as daemon:
        disk.hang()
        answer = daemon.get("/-/reload", method="POST")
        assert (answer.status, MESSAGE in answer.text) == (500, True)
        assert "pulsed_config_last_reload_successful 0" in daemon.get("/metrics").text
        lives(daemon, disk)


def test_a_file_system_that_is_back_is_read_again(tmp_path: Path, disk: Disk) -> None:
    with configured(tmp_path, disk) as daemon:
        disk.hang()
        assert daemon.get("/-/reload", method="POST").status == 500
        disk.answer()
        until(lambda: daemon.get("/-/reload", method="POST").status == 200)
