"""Builds the deb and the rpm: everything of pulsed in `/opt/pulsed`, with the locked wheels, for the system's Python.

`/opt/pulsed` is a virtual environment for several Pythons at once. Their modules lie in one folder: pure modules are
the same, and the name of an extension module has the version. So a package runs on every distribution that has one of
`PYTHONS`, whose updates are the distribution's. Wheels of another architecture are unpacked, not run.

The scripts of the packages, the unit and the man pages are those of `deploy/packages/` and of `pulsed install-files`.
"""

from __future__ import annotations

import filecmp
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.package_documents import write_debian_changelog, write_documents
from tools.references import MAINTAINER, REPOSITORY

ROOT = Path(__file__).resolve().parents[1]
PACKAGING = ROOT / "deploy" / "packages"
CONSTRAINTS = ROOT / "deploy" / "constraints.txt"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""As in `deploy/packages/pulsed` and in the dependencies of the packages."""

SUMMARY = "trustworthy GPU metrics from NVIDIA DCGM"
SITE = Path("opt/pulsed/lib/site-packages")
UNUSED = {".pyx", ".pxd", ".pyi", ".c", ".h"}
"""Suffixes of files in wheels that no program reads at run time."""

UNTRUE = {"RECORD", "WHEEL", "INSTALLER", "REQUESTED", "sboms"}
"""Files of a wheel's metadata that describe the wheel, not what is unpacked of several of them."""

_GLIBC = ("2_28", "2_27", "2_26", "2_24", "2_17", "2_12", "2_5")


class PackageFailed(Exception):
    """A package cannot be built; the message has the reason."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """An architecture by its names in wheels and rpm, in deb, and as a platform of images."""

    machine: str
    deb: str
    platform: str


ARCHITECTURES = (Architecture("x86_64", "amd64", "linux/amd64"), Architecture("aarch64", "arm64", "linux/arm64"))


def build_packages(wheel: Path, version: str, platforms: Sequence[str], dist: Path, epoch: str) -> Iterator[str]:
    """Build a deb and an rpm for each platform into `dist`; yield what could not be built, with the reason.

    Args:
        wheel: of pulsed.
        epoch: time of all files, in seconds since 1970.
    """
    with tempfile.TemporaryDirectory() as folder:
        for each in (each for each in ARCHITECTURES if each.platform in platforms):
            environment = Path(folder, each.deb)
            try:
                unpack_wheels(each, environment)
            except PackageFailed as error:
                yield f"deb and rpm for {each.platform}: {error}"
                continue
            for name, program, build in (("deb", "dpkg-deb", build_deb), ("rpm", "rpmbuild", build_rpm)):
                if shutil.which(program) is None:
                    package = "dpkg" if program == "dpkg-deb" else "rpm"
                    yield f"{name} for {each.platform}: {program} is not installed; apt-get install {package}"
                    continue
                try:
                    build(each, environment, wheel, version, dist, epoch)
                except PackageFailed as error:
                    yield f"{name} for {each.platform}: {error}"


def unpack_wheels(architecture: Architecture, target: Path) -> None:
    """Unpack the locked wheels of an architecture for all of `PYTHONS` into one folder.

    Raises:
        PackageFailed: a wheel is missing, its hash is not the locked one, or two Pythons have different modules; or
            elfutils is missing, whose eu-strip removes debug symbols for any architecture.
    """
    strip = shutil.which("eu-strip")
    if strip is None:
        raise PackageFailed("eu-strip is not installed; apt-get install elfutils")
    tags = [f"manylinux_{glibc}_{architecture.machine}" for glibc in _GLIBC]
    platforms = [f"--platform={tag}" for tag in (*tags, f"manylinux2014_{architecture.machine}")]
    requirements = CONSTRAINTS.read_text()
    for python in PYTHONS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "constraints.txt").write_text(requirements)
            _run(
                *(sys.executable, "-m", "pip", "install", "--quiet", "--target", folder / "site", "--no-compile"),
                *("--no-deps", "--only-binary=:all:", "--implementation=cp", f"--python-version={python}", *platforms),
                *("--require-hashes", "--requirement", folder / "constraints.txt"),
            )
            requirements = _not_pure(requirements, folder / "site")
            _merge(folder / "site", target)
    for path in target.rglob("*.so"):
        _run(strip, "--strip-debug", path)


def _not_pure(requirements: str, site: Path) -> str:
    """Return the requirements whose wheels, as they are unpacked here, are not those of all Pythons."""
    wheels = [path for path in site.glob("*.dist-info/WHEEL") if "Root-Is-Purelib: false" in path.read_text()]
    names = {path.parent.name.partition("-")[0].lower() for path in wheels}
    each = re.split(r"\n(?=[a-z])", requirements)
    return "\n".join(one for one in each if re.sub(r"[-.]", "_", one.partition("==")[0]) in names)


def _merge(source: Path, target: Path) -> None:
    shutil.rmtree(source / "bin", ignore_errors=True)
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source)
        if path.is_dir() or path.suffix in UNUSED or (name.parts[0].endswith(".dist-info") and name.parts[1] in UNTRUE):
            continue
        merged = target / name
        if merged.exists() and not filecmp.cmp(path, merged, shallow=False):
            raise PackageFailed(f"{name} is not the same for all of Python {', '.join(PYTHONS)}")
        merged.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, merged)


def stage(environment: Path, wheel: Path, version: str, zsh: str, target: Path) -> None:
    """Write the tree of a package.

    Args:
        environment: the unpacked wheels.
        version: of the package.
        zsh: folder of zsh's completions, which distributions do not agree about.
    """
    site, opt = target / SITE, target / "opt/pulsed"
    shutil.copytree(environment, site)
    shutil.unpack_archive(wheel, site, "zip")
    for name in UNTRUE:
        for path in site.glob(f"*.dist-info/{name}"):
            path.unlink()
    _run(sys.executable, "-m", "pulsed", "install-files", opt / "share")
    for page in (opt / "share").rglob("README.md"):  # with all other documents
        page.unlink()
    write_documents(target / "usr/share/doc/pulsed", version)
    shutil.rmtree(site / "pulsed/files")
    (site / "pulsed/files").symlink_to("../../../share")
    (opt / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    (opt / "bin").mkdir()
    for python in PYTHONS:
        (opt / f"bin/python{python}").symlink_to(f"/usr/bin/python{python}")
        (opt / f"lib/python{python}").mkdir()
        (opt / f"lib/python{python}/site-packages").symlink_to("../site-packages")
    share, units = opt / "share", target / "usr/lib/systemd/system"
    for source, copy in (
        (PACKAGING / "pulsed", opt / "bin/pulsed"),
        (PACKAGING / "compile", opt / "lib/compile"),
        (share / "systemd/pulsed.service", units / "pulsed.service"),
        (share / "systemd/pulsed.socket", units / "pulsed.socket"),
        (share / "systemd/pulsed.sysusers.conf", target / "usr/lib/sysusers.d/pulsed.conf"),
        (share / "systemd/pulsed.tmpfiles.conf", target / "usr/lib/tmpfiles.d/pulsed.conf"),
        (share / "systemd/config.yaml", target / "etc/pulsed/config.yaml"),
        (share / "systemd/pulsed.default", target / "etc/default/pulsed"),
        (share / "completions/bash/pulsed", target / "usr/share/bash-completion/completions/pulsed"),
        (share / "completions/fish/pulsed.fish", target / "usr/share/fish/vendor_completions.d/pulsed.fish"),
        (share / "completions/zsh/_pulsed", target / zsh / "_pulsed"),
        (ROOT / "LICENSE", target / "usr/share/doc/pulsed/copyright"),
    ):
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, copy)
    (target / "usr/bin").mkdir()
    (target / "usr/bin/pulsed").symlink_to("/opt/pulsed/bin/pulsed")
    pages = target / "usr/share/man/man1"
    pages.mkdir(parents=True)
    for page in (share / "man/man1").iterdir():
        (pages / f"{page.name}.gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
    for path in target.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    (target / "etc/pulsed").chmod(0o750)
    (target / "etc/pulsed/config.yaml").chmod(0o640)  # its group comes with tmpfiles.d


def build_deb(architecture: Architecture, environment: Path, wheel: Path, version: str, dist: Path, epoch: str) -> Path:
    """Build a deb into `dist` and return its path; raises `PackageFailed`."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "tree")
        stage(environment, wheel, version, "usr/share/zsh/vendor-completions", target)
        write_debian_changelog(target / "usr/share/doc/pulsed/changelog.gz", version, int(epoch))
        files = sorted(path for path in target.rglob("*") if path.is_file() and not path.is_symlink())
        shutil.copytree(PACKAGING / "deb", target / "DEBIAN")
        control = target / "DEBIAN/control"
        control.write_text(
            control.read_text().format(
                version=version,
                architecture=architecture.deb,
                maintainer=MAINTAINER,
                homepage=REPOSITORY,
                kib=sum(path.stat().st_size for path in files) // 1024,
                summary=SUMMARY,
            )
        )
        sums = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(target)}\n" for path in files]
        (target / "DEBIAN/md5sums").write_text("".join(sums))
        target.chmod(0o755)
        package = dist / f"pulsed_{version}_{architecture.deb}.deb"
        _run("dpkg-deb", "--root-owner-group", "-Zzstd", "-z9", "--build", target, package, SOURCE_DATE_EPOCH=epoch)
    return package


def build_rpm(architecture: Architecture, environment: Path, wheel: Path, version: str, dist: Path, epoch: str) -> Path:
    """Build an rpm into `dist` and return its path; raises `PackageFailed`."""
    with tempfile.TemporaryDirectory() as folder:
        target, files, built = Path(folder, "tree"), Path(folder, "files"), Path(folder, "rpms")
        stage(environment, wheel, version, "usr/share/zsh/site-functions", target)
        files.write_text("".join(_rpm_files(target)))
        definitions = {
            "_topdir": Path(folder, "top"),
            "_rpmdir": built,
            "stage_tree": target,
            "file_list": files,
            "version_of_pulsed": version,
            "summary_of_pulsed": SUMMARY,
            "homepage": REPOSITORY,
        }
        _run(
            *("rpmbuild", "--quiet", "-bb", f"--target={architecture.machine}-linux"),
            *(word for name, value in definitions.items() for word in ("--define", f"{name} {value}")),
            PACKAGING / "rpm/pulsed.spec",
            SOURCE_DATE_EPOCH=epoch,
        )
        (found,) = built.glob("*/*.rpm")
        return Path(shutil.copy(found, dist))


def _rpm_files(tree: Path) -> Iterator[str]:
    """Yield the lines of the list of files: all files, and the folders that are the package's own."""
    for path in sorted(tree.rglob("*")):
        name = f"/{path.relative_to(tree)}"
        if path.is_dir() and not path.is_symlink():
            if name.startswith(("/opt/pulsed", "/etc/pulsed", "/usr/share/doc/pulsed")):
                verified = "%verify(not group) " if name.startswith("/etc/") else ""
                yield f'%dir {verified}%attr({path.stat().st_mode & 0o777:04o}, root, root) "{name}"\n'
            continue
        mode = "-" if path.is_symlink() else f"{path.stat().st_mode & 0o777:04o}"
        config = "%config(noreplace) %verify(not group) " if name.startswith("/etc/") else ""
        yield f'{config}%attr({mode}, root, root) "{name}"\n'


def _run(*words: str | Path, **variables: str) -> None:
    done = subprocess.run(words, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PackageFailed(f"{Path(words[0]).name}: {(done.stderr or done.stdout).strip()[:3000]}")
