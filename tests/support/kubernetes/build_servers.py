"""Builds the servers of a real Kubernetes API for tests: `make kubernetes`, once for all checkouts of a user.

kube-apiserver and kube-controller-manager 1.20 come from Debian 12's source package kubernetes, the last one that has
them, and are built with Debian's Go 1.19; etcd is a binary package. Needs Debian 12 and 3 GB of disk, but no rights:
packages are unpacked into the build's folder.

It takes 270 s of CPU time, too much for `.ci/run`, whose tests on a real API server are skipped where nobody has built
them. The CI on GitHub has a job that builds and uses them.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

VERSION = "1.20.2"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pulsed"
SERVERS = CACHE / f"kubernetes-{VERSION}"
"""Folder with the programs."""

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager")

_REFLECT2 = "golang-github-modern-go-reflect2-dev"
_PACKAGES = ("golang-1.19-go", "golang-1.19-src", "etcd-server", _REFLECT2)
_PROJECT = "k8s.io/kubernetes"
_LIBRARIES = f"{_PROJECT}/vendor/k8s.io"
_OPENAPI = "pkg/generated/openapi"
_VERSION_PACKAGES = ("component-base/version", "client-go/pkg/version")


def build(folder: Path) -> None:
    """Build the programs in an empty folder, and move them to SERVERS."""
    packages, gopath = folder / "packages", folder / "gopath"
    source = gopath / "src" / _PROJECT
    _download(folder)
    for package in sorted(folder.glob("*.deb")):
        _run("dpkg-deb", "--extract", package, packages)
    source.mkdir(parents=True)
    _run("tar", "--extract", "--strip-components=1", "--file", next(folder.glob("*.orig.tar.gz")), cwd=source)
    # The version in the vendored code does not build with Go after 1.17.
    reflect2 = "github.com/modern-go/reflect2"
    shutil.rmtree(source / "vendor" / reflect2)
    shutil.copytree(packages / "usr/share/gocode/src" / reflect2, source / "vendor" / reflect2)
    goroot, made = packages / "usr/lib/go-1.19", folder / "made"
    variables = {
        "GOROOT": str(goroot),
        "GOPATH": str(gopath),
        "GOCACHE": str(folder / "cache"),
        "GO111MODULE": "off",
        "CGO_ENABLED": "0",
        "PATH": f"{goroot / 'bin'}:{os.environ['PATH']}",
    }
    made.mkdir()
    generator = "openapi-gen"
    _run("go", "build", "-o", made, f"./vendor/k8s.io/kube-openapi/cmd/{generator}", cwd=source, variables=variables)
    output = ("-p", f"{_PROJECT}/{_OPENAPI}", "-O", "zz_generated.openapi", "-r", folder / "violations")
    described = ("-i", ",".join(_described(source)), "-h", "hack/boilerplate/boilerplate.go.txt")
    _run(made / generator, *described, *output, cwd=source, variables=variables)
    (made / generator).unlink()
    major, minor, _ = VERSION.split(".")
    facts = {"gitMajor": major, "gitMinor": minor, "gitVersion": f"v{VERSION}"}
    linked = [
        f"-X {_LIBRARIES}/{package}.{name}={value}" for package in _VERSION_PACKAGES for name, value in facts.items()
    ]
    options = ("-tags", "providerless,dockerless", "-ldflags", " ".join(("-s", "-w", *linked)))
    commands = [f"./cmd/{name}" for name in PROGRAMS if name != "etcd"]
    _run("go", "build", *options, "-o", f"{made}/", *commands, cwd=source, variables=variables)
    shutil.copy(packages / "usr/bin/etcd", made)
    made.rename(SERVERS)


def sources(entries: Iterable[str]) -> str:
    """Return the text of files of APT's sources, in the format deb822 or in lines, with entries for source packages."""
    return "\n\n".join(
        re.sub(r"^Types:.*$", "Types: deb deb-src", text, flags=re.MULTILINE)
        if re.search(r"^Types:", text, re.MULTILINE)
        else re.sub(r"^deb (.*)$", r"deb \1\ndeb-src \1", text, flags=re.MULTILINE)
        for text in entries
    )


def _download(folder: Path) -> None:
    """Download the packages with APT's state in this folder: the machine's own stays as it is."""
    state = folder / "apt"
    for name in ("lists/partial", "archives/partial", "sources"):
        (state / name).mkdir(parents=True)
    etc = Path("/etc/apt")
    for kind in ("list", "sources"):
        found = [*etc.glob(f"sources.{kind}"), *etc.glob(f"sources.list.d/*.{kind}")]
        (state / "sources" / f"all.{kind}").write_text(sources(path.read_text() for path in sorted(found)))
    config = folder / "apt.conf"
    config.write_text(
        f'Dir::Etc::SourceList "/dev/null";\nDir::Etc::SourceParts "{state}/sources";\n'
        f'Dir::State::Lists "{state}/lists";\nDir::Cache "{state}";\nAPT::Sandbox::User "";\n'
    )
    variables = {"APT_CONFIG": str(config)}
    _run("apt-get", "-qq", "update", variables=variables)
    _run("apt-get", "-qq", "source", "--download-only", "kubernetes", cwd=folder, variables=variables)
    if not list(folder.glob(f"kubernetes_*{VERSION}*.dsc")):
        raise SystemExit(f"the source package kubernetes has not version {VERSION}, which is Debian 12's")
    _run("apt-get", "-qq", "download", *_PACKAGES, cwd=folder, variables=variables)


def _described(source: Path) -> list[str]:
    """Return the Go packages whose types the server's OpenAPI document describes."""
    found = set()
    for root, name in (("pkg", "pkg"), ("staging/src", "vendor")):
        for path in (source / root).rglob("*.go"):
            place = Path(name) / path.parent.relative_to(source / root)
            if not {"code-generator", "sample-apiserver"} & set(place.parts) and re.search(
                rb"^// *\+k8s:openapi-gen=", path.read_bytes(), re.MULTILINE
            ):
                found.add(f"{_PROJECT}/{place}")
    return sorted(found)


def _run(*words: str | Path, cwd: Path | None = None, variables: Mapping[str, str] | None = None) -> None:
    subprocess.run(words, cwd=cwd, env=os.environ | (variables or {}), check=True)


def main() -> None:
    """Build what is not there yet; a second process waits for the first."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not SERVERS.exists():
            begun, folder = time.monotonic(), CACHE / f"{SERVERS.name}.build"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            os.nice(10)
            build(folder)
            shutil.rmtree(folder)
            print(f"built in {time.monotonic() - begun:.0f} s")
    print(SERVERS)


if __name__ == "__main__":
    main()
