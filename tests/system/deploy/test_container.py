"""The image, without a Docker daemon: linted, read, and its build run as far as a folder can stand in for the image."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from pulsed import __version__
from pulsed.config.configuration import Config
from tests.support.daemon import Daemon, environment, free_port
from tests.support.tools import missing
from tests.support.waiting import SECONDS
from tests.system.deploy.dockerfile import Stage, stages
from tests.system.deploy.tools import fetched

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILE = ROOT / "deploy" / "container" / "Dockerfile"

BUILD, DCGMI, RUNTIME = stages(DOCKERFILE)
RUNNING = pytest.mark.parametrize("stage", [DCGMI, RUNTIME], ids=lambda stage: stage.name)


def test_hadolint_finds_nothing() -> None:
    done = subprocess.run(
        [fetched("hadolint"), "--no-color", "--failure-threshold", "style", str(DOCKERFILE)],
        capture_output=True,
        text=True,
        timeout=2 * SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == ""


def test_a_plain_build_gives_the_runtime() -> None:
    assert [stage.name for stage in stages(DOCKERFILE)] == ["build", "dcgmi", "runtime"]
    assert not RUNTIME.all("RUN"), "nothing is installed where it runs"
    assert RUNTIME.base == BUILD.base, "a virtual environment works with the Python that made it only"


@RUNNING
def test_it_runs_without_root_and_without_a_shell(stage: Stage) -> None:
    user, group = stage.last("USER").split(":")
    assert int(user) > 0
    assert int(group) > 0
    assert stage.exec_form("ENTRYPOINT") == ["pulsed"]
    assert stage.exec_form("CMD")[0] == "serve"
    assert stage.exec_form("HEALTHCHECK")[0] == "python"


@RUNNING
def test_the_port_is_that_of_the_default_configuration(stage: Stage) -> None:
    (listen,) = {str(address).rpartition(":")[2] for address in Config().listen}
    assert stage.last("EXPOSE") == listen
    assert f"127.0.0.1:{listen}/-/healthy" in stage.last("HEALTHCHECK")


def test_the_images_are_pinned() -> None:
    arguments = dict(re.findall(r"^ARG (\w+)=(\S+)$", DOCKERFILE.read_text(), re.MULTILINE))
    for stage in stages(DOCKERFILE):
        match = re.fullmatch(r"\$\{(\w+)\}", stage.base)
        assert match, f"{stage.name}: the base image is an argument"
        assert re.search(r":\d+\.\d+", arguments[match[1]]), "with a version"


def test_the_image_says_what_it_is() -> None:
    text = RUNTIME.last("LABEL")
    for name in ("title", "description", "licenses", "version", "revision"):
        assert f"org.opencontainers.image.{name}=" in text


def context() -> Iterator[str]:
    """The files that docker would send: of .dockerignore's rules, the last that matches counts."""
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    for name in everything_here():
        sent = True
        parents = ["/".join(name.split("/")[: depth + 1]) for depth in range(name.count("/") + 1)]
        for rule in rules:
            pattern = rule.removeprefix("!").removeprefix("**/")
            candidates = [*parents, *name.split("/")] if "**/" in rule else parents
            if any(fnmatch(candidate, pattern) for candidate in candidates):
                sent = rule.startswith("!")
        if sent:
            yield name


def everything_here() -> Iterator[str]:
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in (".git", ".venv", "build")]
        yield from (str((Path(folder) / name).relative_to(ROOT)) for name in names)


def test_the_build_is_sent_the_package_and_nothing_else() -> None:
    sent = set(context())
    assert {name.split("/")[0] for name in sent} == {
        *("pulsed", "pyproject.toml", "README.md", "LICENSE", "deploy", "docs", "systemd", "config.example.yaml")
    }
    assert {"deploy/build-constraints.txt", "deploy/constraints.txt"} <= sent
    assert "pulsed/cli/__init__.py" in sent
    assert not [name for name in sent if "__pycache__" in name]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the build stage's instructions were carried out, with this Python for the image's."""
    top = tmp_path_factory.mktemp("image")
    programs = top / "bin"
    programs.mkdir()
    for name, target in (("python", "python"), ("pip", "python -m pip")):
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec {target.replace("python", shlex.quote(sys.executable))} "$@"\n')
        script.chmod(0o755)
    sent, place = list(context()), top
    for word, rest in BUILD.steps:
        if word == "WORKDIR":
            place = top / rest.lstrip("/")
            place.mkdir(parents=True)
        elif word == "COPY":
            copy(rest, sent, place)
        elif word == "RUN":
            command = re.sub(r"(?<=[ =])/(?=dist|opt)", f"{top}/", rest)
            variables = environment(PATH=f"{programs}:{os.environ['PATH']}", PYTHONWARNINGS="default")
            done = subprocess.run(
                ["/bin/sh", "-ec", command], cwd=place, env=variables, capture_output=True, text=True, check=False
            )
            if done.returncode and "Could not find a version" in done.stderr:
                missing("no package registry can be reached: set pip's index")
            assert done.returncode == 0, done.stderr
    return top


def copy(rest: str, sent: list[str], place: Path) -> None:
    *sources, target = rest.split()
    for source in sources:
        found = [name for name in sent if name == source or name.startswith(f"{source}/")]
        assert found, f"COPY {source}: .dockerignore keeps it from the build"
        for name in found:
            # A folder's contents go into the target, a file under its own name.
            path = place / target / (Path(name).relative_to(source) if name != source else Path(name).name)
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, path)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_the_build_makes_a_pulsed_that_serves_and_writes_nothing(image: Path, tmp_path: Path) -> None:
    programs = image / "opt" / "pulsed" / "bin"
    assert not (programs / "pip").exists()
    (wheel,) = (image / "dist").glob("*.whl")
    assert wheel.name.startswith(f"pulsed-{__version__}-")
    nvml = subprocess.run(
        [programs / "pulsed", "snapshot", "--source", "nvml"], capture_output=True, text=True, check=False
    )
    assert "libnvidia-ml.so.1 is not found" in nvml.stderr, "nvidia-ml-py is there; a driver comes with the node"

    before = everything(image)
    port = free_port()
    (home := tmp_path / "home").mkdir()
    variables = {"PATH": str(programs), "HOME": str(home), "TMPDIR": str(home)}
    command = [str(programs / RUNTIME.exec_form("ENTRYPOINT")[0]), *RUNTIME.exec_form("CMD")]
    command += ["--source", "demo", "--web.listen-address", f"127.0.0.1:{port}"]
    check = [argument.replace(":9401", f":{port}") for argument in RUNTIME.exec_form("HEALTHCHECK")]
    check[0] = str(programs / check[0])

    def healthy() -> bool:
        return not subprocess.run(check, env=variables, capture_output=True, timeout=30, check=False).returncode

    log_path = tmp_path / "log"
    with log_path.open("w") as log:
        process = subprocess.Popen(command, cwd="/", env=variables, stdout=log, stderr=log, text=True)
    try:
        daemon = Daemon(process, port, log_path)
        daemon.wait_for("/-/ready")
        assert healthy()
        assert "pulsed_gpu_real_utilization_ratio" in daemon.get("/metrics").text
        assert daemon.get("/docs").status == 200
        assert len(daemon.get("/gpus").json()["gpus"]) == 8
        assert daemon.stop() == 0
    finally:
        process.kill()
        process.wait(SECONDS)
    assert not healthy()
    assert everything(image) == before, "its file system is read-only in a cluster"
    assert list(home.iterdir()) == []


def everything(folder: Path) -> dict[str, int]:
    """Every file, and when it changed."""
    return {str(path): path.lstat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
