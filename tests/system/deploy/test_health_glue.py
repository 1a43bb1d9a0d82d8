"""The scripts for Nagios, Slurm and node-problem-detector in real shells, against a real daemon and a real Slurm."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import secrets
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import HTTPServer
from pathlib import Path

import bcrypt
import pytest

from pulsed.compute.health.checks import CHECKS
from tests.support.certificates import make_authority
from tests.support.daemon import Daemon, free_port, serving
from tests.support.exporters import Exporter, exporting
from tests.support.http_servers import QuietHandler, running
from tests.support.slurm import NODE, SlurmCluster, slurm
from tests.support.tools import tool
from tests.support.waiting import SECONDS, until
from tests.system.deploy.tools import fetched

GLUE = Path(__file__).parents[3] / "deploy" / "health"

SHELLS = {"bash": ("bash", ""), "dash": ("dash", ""), "busybox": ("busybox", "sh")}
CLIENTS = {"curl": "curl", "wget": "wget", "busybox wget": "busybox", "bash": "bash"}
VERDICTS = {
    "gpu_lost": "OK",
    "row_remap_pending": "WARNING",
    "row_remap_failed": "CRITICAL",
    "retired_pages": "UNKNOWN",
}
"""By check: the verdict of a GPU with a row that cannot be remapped, and no inputs for its link."""


@dataclass
class FailingGpu(Exporter):
    """A page of one GPU whose counters advance with every answer.

    Attributes:
        failed: whether a row could not be remapped.
        celsius: its temperature.
        joules: energy since the driver was loaded.
        xid: code of its last XID.
        is_lost: whether the page has another GPU only.
    """

    body: str = ""
    failed: int = 0
    celsius: float = 50.0
    joules: float = 1000.0
    xid: int = 0
    is_lost: bool = False

    def answer(self) -> str:
        self.joules += 150.0
        rows = {
            "DCGM_FI_PROF_SM_ACTIVE": 0.5,
            "DCGM_FI_DEV_POWER_USAGE": 150 + self.asked % 7,
            "DCGM_FI_DEV_GPU_TEMP": self.celsius,
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": self.joules * 1000,
            "DCGM_FI_DEV_ROW_REMAP_FAILURE": self.failed,
            "DCGM_FI_DEV_ROW_REMAP_PENDING": self.failed,
            "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": 0,
            "DCGM_FI_DEV_XID_ERRORS": self.xid,
        }
        number = int(self.is_lost)
        labels = f'gpu="{number}",UUID="GPU-{number}",modelName="NVIDIA A100-SXM4-40GB",Hostname="node"'
        return "".join(f"# TYPE {name} gauge\n{name}{{{labels}}} {value}\n" for name, value in rows.items())


def reading(url: str) -> tuple[str, ...]:
    return "--source=exporter", f"--set=source.exporter.targets={url}0", "--set=source.interval=1s"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with (
        exporting({"0": FailingGpu(failed=1)}) as url,
        serving(tmp_path_factory.mktemp("daemon"), *reading(url)) as made,
    ):
        yield made


def run(
    script: str, *arguments: str, shell: str = "dash", client: str = "curl", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a script by this shell, with nothing on the PATH but one HTTP client and the programs of coreutils."""
    program, applet = SHELLS[shell]
    folder = Path(environment.pop("folder"))
    folder.mkdir(exist_ok=True)
    for name in ("basename", "base64", "cat", "cut", "head", "od", "timeout", "tr"):
        (folder / name).symlink_to(tool(name, "coreutils"))
    (folder / client.split()[-1]).symlink_to(tool(CLIENTS[client], CLIENTS[client]))
    return subprocess.run(
        [tool(program, program), *([applet] if applet else []), GLUE / script, *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env={"PATH": str(folder), "PULSED_TIMEOUT": "30"} | environment,  # a busy machine takes long
    )


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_and_client_gets_the_verdict(daemon: Daemon, tmp_path: Path, shell: str, client: str) -> None:
    for number, (check, verdict) in enumerate(VERDICTS.items()):
        folder = str(tmp_path / check)
        url = f"http://{daemon.address}"
        done = run("check_pulsed.sh", url, check, shell=shell, client=client, folder=folder)
        assert (done.returncode, done.stderr) == (number, "")
        assert done.stdout.startswith(f"PULSED {verdict} - ")
        assert done.stdout == daemon.get(f"/health/gpus?format=line&checks={check}").text


@pytest.mark.parametrize("client", CLIENTS)
def test_a_failure_is_unknown_with_its_place(daemon: Daemon, tmp_path: Path, client: str) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    silent = run("check_pulsed.sh", PULSED_URL=url, client=client, folder=str(tmp_path / "silent"))
    assert (silent.returncode, silent.stdout.split(": ")[0]) == (3, f"PULSED UNKNOWN - {url[7:]}")
    refused = run("check_pulsed.sh", f"http://{daemon.address}", "gpu_lst", client=client, folder=str(tmp_path / "no"))
    assert (refused.returncode, refused.stdout.split(": ")[0]) == (3, f"PULSED UNKNOWN - {daemon.address}")


class BusyHandler(QuietHandler):
    """A daemon that is too busy for the first two requests."""

    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        is_busy = self.asked < 3
        self.send_response(503 if is_busy else 200)
        self.end_headers()
        self.wfile.write(b'{"error": "too many requests; try again"}\n' if is_busy else b"PULSED OK - 1 GPU\n")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_busy_daemon_is_asked_again(tmp_path: Path, client: str) -> None:
    BusyHandler.asked = 0
    server = HTTPServer(("127.0.0.1", 0), BusyHandler)
    with running(server):
        url = f"http://127.0.0.1:{server.server_port}"
        done = run("check_pulsed.sh", url, shell="bash", client=client, folder=str(tmp_path / "bin"))
    assert (done.returncode, done.stdout) == (0, "PULSED OK - 1 GPU\n")
    assert BusyHandler.asked == 3


def test_slurm_s_check_reports_an_unknown_health_as_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "glue"
    shutil.copytree(GLUE, folder)
    address = f"127.0.0.1:{free_port()}"
    (folder / "slurm-health-check.conf").write_text(f"PULSED_URL=http://{address}\n")
    done = subprocess.run([folder / "slurm-health-check.sh"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert f"a sick node is not drained: PULSED UNKNOWN - {address}" in done.stderr


@pytest.mark.parametrize("client", CLIENTS)
def test_a_login_is_used_and_never_shown(tmp_path: Path, client: str) -> None:
    secret = bcrypt.hashpw(b"s3cret", bcrypt.gensalt(4)).decode()
    (tmp_path / "web.yml").write_text(f"basic_auth_users: {{ops: {secret}}}\n")
    flags = ("--source=demo", f"--web.config.file={tmp_path}/web.yml", "--set=web.open_probes=true")
    with serving(tmp_path, *flags) as daemon:
        for password, code in (("s3cret", 0), ("wr0ng", 3)):
            url = f"http://ops:{password}@{daemon.address}"
            done = run("check_pulsed.sh", url, "gpu_lost", client=client, folder=str(tmp_path / password))
            assert done.returncode == code, done
            assert password not in done.stdout


PASSWORD = "s3\"cr\\\\et %21$x'pä"


class Watcher(HTTPServer):
    """Answers with a line of health, and looks for secrets in the list of processes while a client waits.

    Attributes:
        seen: the headers Authorization.
        shown: command lines that have a secret.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), WatchingHandler)
        self.secrets: tuple[str, ...] = ()
        self.seen: list[str | None] = []
        self.shown: list[bytes] = []


class WatchingHandler(QuietHandler):
    server: Watcher

    def do_GET(self) -> None:
        given = self.headers["Authorization"]
        self.server.seen.append(given)
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                line = (process / "cmdline").read_bytes()
                if any(secret.encode() in line for secret in self.server.secrets):
                    self.server.shown.append(line)
        self.send_response(200 if given else 401)
        if not given:
            self.send_header("WWW-Authenticate", 'Basic realm="pulsed"')
        self.end_headers()
        self.wfile.write(b"PULSED OK - watched\n" if given else b"")


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    made = Watcher()
    with running(made):
        yield made


def basic(login: str) -> str:
    return f"Basic {base64.b64encode(login.encode()).decode()}"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_password_in_a_file_is_in_no_list_of_processes(
    watcher: Watcher, tmp_path: Path, client: str, shell: str
) -> None:
    file, sent = tmp_path / "password", basic(f"ops:{PASSWORD}")
    file.write_text(f"{PASSWORD}\n")
    watcher.secrets = (PASSWORD, sent.removeprefix("Basic "), "".join(f"%{byte:02x}" for byte in PASSWORD.encode()))
    url = f"http://127.0.0.1:{watcher.server_port}"
    settings = {"PULSED_USERNAME": "ops", "PULSED_PASSWORD_FILE": str(file), "folder": str(tmp_path / "path")}
    done = run("check_pulsed.sh", url, client=client, shell=shell, **settings)
    if client == "busybox wget":
        assert (done.returncode, watcher.seen) == (3, [])
        assert "PULSED_PASSWORD_FILE needs curl, GNU wget or bash" in done.stdout
        return
    assert (done.returncode, done.stdout, done.stderr) == (0, "PULSED OK - watched\n", "")
    assert (watcher.seen[-1], watcher.shown) == (sent, [])


@pytest.mark.parametrize("client", [client for client in CLIENTS if client != "busybox wget"])
def test_a_login_in_the_environment_is_in_no_list_of_processes(watcher: Watcher, tmp_path: Path, client: str) -> None:
    secret = secrets.token_hex(8)  # no other test has it, whose processes run at the same time
    sent = basic(f"ops:{secret}!")
    watcher.secrets = (secret, sent.removeprefix("Basic "))
    url = f"http://ops:{secret}%21@127.0.0.1:{watcher.server_port}"
    done = run("check_pulsed.sh", client=client, PULSED_URL=url, folder=str(tmp_path / "path"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "PULSED OK - watched\n", "")
    assert watcher.seen[-1] == sent
    assert watcher.shown == []


@pytest.mark.parametrize("client", CLIENTS)
def test_a_password_file_that_cannot_be_read_is_unknown(tmp_path: Path, client: str) -> None:
    settings = {"PULSED_USERNAME": "ops", "PULSED_PASSWORD_FILE": str(tmp_path / "missing")}
    done = run("check_pulsed.sh", client=client, folder=str(tmp_path / "path"), **settings)
    assert (done.returncode, done.stderr) == (3, "")
    assert f"{tmp_path}/missing: No such file" in done.stdout


@pytest.mark.nightly
@pytest.mark.parametrize("client", ["curl", "wget"])
def test_a_certificate_of_the_client(watcher: Watcher, tmp_path: Path, client: str) -> None:
    authority = make_authority(tmp_path)
    watcher.socket = authority.server_context(ask_client=True).wrap_socket(watcher.socket, server_side=True)
    (tmp_path / "password").write_text("s3cret")
    files = {"PULSED_CERT_FILE": str(authority.client), "PULSED_KEY_FILE": str(authority.client_key)}
    login = {"PULSED_USERNAME": "ops", "PULSED_PASSWORD_FILE": str(tmp_path / "password")}
    for given, code in ((files, 0), ({}, 3)):
        settings = {**login, **given, "PULSED_CA_FILE": str(authority.ca), "folder": str(tmp_path / f"path{code}")}
        done = run("check_pulsed.sh", f"https://127.0.0.1:{watcher.server_port}", client=client, **settings)
        assert done.returncode == code, done


@pytest.mark.parametrize("shell", SHELLS)
def test_the_detector_reports_what_is_critical(daemon: Daemon, tmp_path: Path, shell: str) -> None:
    for check, code in zip(VERDICTS, (0, 0, 1, 2), strict=True):
        settings = {"PULSED_URL": f"http://{daemon.address}", "PULSED_CHECKS": check, "folder": str(tmp_path / check)}
        done = run("node-problem-detector.sh", shell=shell, client="bash", **settings)
        assert (done.returncode, done.stderr) == (code, "")
        assert done.stdout.startswith(f"PULSED {VERDICTS[check]} - ")
        assert "|" not in done.stdout


def test_the_detectors_configuration_names_the_script() -> None:
    config = json.loads((GLUE / "node-problem-detector.json").read_text())
    (rule,) = config["rules"]
    assert Path(rule["path"]).name in {path.name for path in GLUE.iterdir()}
    assert rule["condition"] in {condition["type"] for condition in config["conditions"]}


def test_the_scripts_are_portable() -> None:
    scripts = sorted(GLUE.parent.glob("*/*.sh"))
    assert len(scripts) == 5
    done = subprocess.run([fetched("shellcheck"), *scripts], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@dataclass
class SlurmNode:
    """A node of a real cluster, whose health check uses a daemon with one GPU."""

    cluster: SlurmCluster
    daemon: Daemon
    gpu: FailingGpu
    folder: Path

    def configure(self, **settings: str) -> None:
        """Write the settings; each run of the script also leaves a line in a file."""
        fixed = {"PULSED_URL": f"http://{self.daemon.address}", "SLURM_CONF": f"{self.cluster.folder}/slurm.conf"}
        lines = [f"{key}={shlex.quote(value)}\n" for key, value in (fixed | settings).items()]
        (self.folder / "slurm-health-check.conf").write_text("".join(lines) + f"echo >> {self.folder}/runs\n")

    def pass_runs(self, number: int = 3) -> None:
        """Wait until slurmd has run the script so many times more."""
        wanted = self.runs() + number
        until(lambda: self.runs() >= wanted)

    def runs(self) -> int:
        path = self.folder / "runs"
        return len(path.read_text()) if path.exists() else 0

    def verdict(self, checks: str = "") -> str:
        return self.daemon.get(f"/health/gpus?format=line&checks={checks}").text.split()[1]

    def is_drained(self) -> bool:
        return "DRAIN" in self.cluster.node()["State"]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[SlurmNode]:
    folder = tmp_path / "glue"
    shutil.copytree(GLUE, folder)
    gpu = FailingGpu()
    script = folder / "slurm-health-check.sh"
    with (
        exporting({"0": gpu}) as url,
        serving(tmp_path, *reading(url)) as daemon,
        slurm(
            tmp_path / "slurm", HealthCheckProgram=script, HealthCheckInterval=1, HealthCheckNodeState="ANY"
        ) as cluster,
    ):
        yield SlurmNode(cluster, daemon, gpu, folder)


def test_slurm_drains_for_repairs_and_resumes_after_a_reset_only(node: SlurmNode) -> None:
    node.configure()
    node.gpu.celsius = 105.0
    until(lambda: node.verdict() == "CRITICAL")
    node.pass_runs()
    assert not node.is_drained(), "heat passes"
    node.gpu.celsius = 50.0

    node.gpu.failed = 1
    until(node.is_drained)
    drained = node.cluster.node()["Reason"]
    assert "node GPU 0 crit: row_remap_failed" in drained
    node.pass_runs()
    assert node.cluster.node()["Reason"] == drained, "it is drained once"

    node.configure(RESUME="yes")
    node.gpu.failed = 0
    until(lambda: node.verdict("row_remap_failed") == "OK")
    node.pass_runs()
    assert node.is_drained(), "there was no reset"
    node.gpu.joules = 0.0
    until(lambda: not node.is_drained())


@pytest.mark.parametrize(
    ("fault", "check"), [({"xid": 79, "is_lost": True}, "gpu_lost"), ({"xid": 79}, "xid_critical")]
)
def test_slurm_drains_a_node_on_which_every_job_would_fail(node: SlurmNode, fault: dict[str, int], check: str) -> None:
    node.configure()
    until(lambda: node.verdict(check) == "OK")
    for name, value in fault.items():
        setattr(node.gpu, name, value)
        until(lambda: node.verdict(check) == "CRITICAL")
    until(node.is_drained)
    assert f"node GPU 0 crit: {check}" in node.cluster.node()["Reason"]


def test_slurm_resumes_on_request_only_and_after_a_restart_of_the_node(node: SlurmNode) -> None:
    node.configure()
    long_ago = "pulsed 1000: node GPU 0 crit: row_remap_failed"
    node.cluster.run("scontrol", "update", f"NodeName={NODE}", "State=DRAIN", f"Reason={long_ago}")
    node.pass_runs()
    assert node.is_drained()
    node.configure(RESUME="yes")
    until(lambda: not node.is_drained())


@pytest.mark.nightly
def test_what_others_drained_stays_drained_and_silence_changes_nothing(node: SlurmNode) -> None:
    node.configure(RESUME="yes")
    node.cluster.run("scontrol", "update", f"NodeName={NODE}", "State=DRAIN", "Reason=disk")
    for failed, verdict in ((0, "OK"), (1, "CRITICAL")):
        node.gpu.failed = failed
        until(lambda verdict=verdict: node.verdict("row_remap_failed") == verdict)  # type: ignore[misc]
        node.pass_runs()
        assert node.cluster.node()["Reason"].startswith("disk ")
    node.configure(RESUME="yes", PULSED_URL=f"http://127.0.0.1:{free_port()}")
    node.pass_runs(2)  # of which the first may have begun with the settings before
    node.cluster.run("scontrol", "update", f"NodeName={NODE}", "State=RESUME")
    node.pass_runs()
    assert not node.is_drained()


def test_each_check_that_can_be_critical_drains_or_has_a_reason_not_to() -> None:
    settings = [line for line in (GLUE / "slurm-health-check.sh").read_text().splitlines() if line.startswith("DRAIN_")]
    script = "\n".join([*settings, 'printf %s "$DRAIN_CHECKS"'])
    drains = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout.split(",")
    table = (GLUE / "README.md").read_text().splitlines()
    rows = [row.split("|")[1:4] for row in table if "|yes|" in row or "|no|" in row]
    documented = {check: verdict.strip() for names, verdict, _ in rows for check in re.findall(r"`(\w+)`", names)}
    assert documented.keys() == {check.id for check in CHECKS if "crit" in check.states}
    assert [check for check, verdict in documented.items() if verdict == "yes"] == drains
