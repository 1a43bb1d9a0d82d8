"""Cuts a release: `make release VERSION=1.2.3`. `make release-files` builds the files of the current version only.

A release is a commit that sets version and date, files in `dist/`, and the tag `v1.2.3`, which is set only when every
file was built. After a failure the same command continues.

`SHA256SUMS` has the digests of all files, the provenance among them. `tools.publish` signs it; in CI that is a job of
its own, with the key and without packages of PyPI.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from tools import build_mixin as mixin
from tools.provenance import sha256, statement
from tools.publish import CHANGELOG, DIST, SECTION, ReleaseRefused, current_version, finish, run
from tools.references import IMAGE
from tools.system_packages import build_packages

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "deploy" / "constraints.txt"
VERSION_FILE = ROOT / "pulsed" / "__init__.py"
DOCKERFILE = ROOT / "deploy" / "container" / "Dockerfile"
PLATFORMS = ("linux/amd64", "linux/arm64")
TARGETS = {"runtime": "", "dcgmi": "-dcgmi"}
"""Stages of the Dockerfile that are published, with what they add to the tag of the image."""

PROGRAMS = {
    "eu-strip": "elfutils",
    "dpkg-deb": "dpkg",
    "rpmbuild": "rpm",
    "buildah": "buildah",
    "minisign": "minisign",
}
"""Programs that a release needs, in addition to helm, and their Debian packages."""

_MACHINES = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """What images to build, and how.

    Attributes:
        platforms: as `linux/arm64`; packages are built for the same.
        targets: keys of `TARGETS`.
        build: further options of `buildah build`.
    """

    platforms: Sequence[str] = PLATFORMS
    targets: Sequence[str] = tuple(TARGETS)
    build: Sequence[str] = ()


def prepare(version: str, lacking: Sequence[str] = ()) -> None:
    """Set version and date, and commit that; nothing is done if it was done before.

    Args:
        lacking: what this machine lacks for a release.

    Raises:
        ReleaseRefused: the working tree is dirty, the tag exists, version and changelog do not fit, or anything is
            lacking.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ReleaseRefused(f"{version!r} is not a version; use three numbers, for example 1.2.3")
    if changes := run("git", "status", "--porcelain"):
        raise ReleaseRefused(f"the working tree has changes; commit or stash them first:\n{changes}")
    if run("git", "tag", "--list", f"v{version}"):
        raise ReleaseRefused(f"the tag v{version} exists; choose another version")
    if Version(version) < Version(current_version()):
        raise ReleaseRefused(f"{version} is older than the current version {current_version()}")
    text = CHANGELOG.read_text(encoding="utf-8")
    newest = SECTION.search(text)
    if newest is None:
        raise ReleaseRefused("CHANGELOG.md has no section `## VERSION / unreleased`")
    if newest["date"] != "unreleased":
        if newest["version"] == version == current_version():
            return  # a release that was not finished
        raise ReleaseRefused("CHANGELOG.md describes nothing new; begin it with a section `## VERSION / unreleased`")
    if lacking:
        raise ReleaseRefused("\n  ".join(["these are missing; install them, or use ARGS=--partial:", *lacking]))
    today = datetime.datetime.now(datetime.UTC).date()
    head = f"## {version} / {today}\n"
    CHANGELOG.write_text(f"{text[: newest.start()]}{head}{newest['text']}{text[newest.end() :]}", encoding="utf-8")
    VERSION_FILE.write_text(VERSION_FILE.read_text().replace(f'"{current_version()}"', f'"{version}"'))
    made = f"VENV={sys.prefix}"
    run("make", "docs", made, "--old-file", f"{sys.prefix}/.dev", "--old-file", f"{sys.prefix}/.run")
    run("git", "commit", "--quiet", "--all", "--message", f"Release {version}")


def missing_tools(images: ImageOptions) -> list[str]:
    """Return what this machine lacks for all files of a release, each with its remedy."""
    found = [
        f"{program} is not installed; apt-get install {package}"
        for program, package in PROGRAMS.items()
        if shutil.which(program) is None and (program != "minisign" or os.environ.get("MINISIGN_KEY"))
    ]
    try:
        _helm()
    except ReleaseRefused as error:
        found.append(str(error))
    if shutil.which("buildah") is None:
        return found
    return found + [reason for platform in images.platforms if (reason := _cannot_run(platform))]


def build(images: ImageOptions) -> list[str]:
    """Build the files of the current version into `dist/`; return what could not be built here, with the reason."""
    version = current_version()
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    epoch = run("git", "log", "-1", "--format=%ct")
    run(sys.executable, "-m", "build", "--outdir", DIST, SOURCE_DATE_EPOCH=epoch)
    (wheel,) = DIST.glob("*.whl")
    run(_helm(), "package", ROOT / "helm" / "pulsed", "--destination", DIST)
    (DIST / f"pulsed-{version}.tgz").rename(DIST / f"pulsed-chart-{version}.tgz")
    mixin.archive(DIST / f"pulsed-mixin-{version}.tar.gz", int(epoch))
    _write_sbom(wheel, DIST / f"pulsed-{version}.cdx.json", epoch)
    shutil.copy(CONSTRAINTS, DIST)
    missing = list(build_packages(wheel, version, images.platforms, DIST, epoch))
    missing += _build_images(version, images)
    _write_provenance(DIST / f"pulsed-{version}.provenance.json", version, images)
    sums = DIST / "SHA256SUMS"
    sums.write_text("".join([f"{sha256(file)}  {file.name}\n" for file in sorted(DIST.iterdir())]))
    finish(version)
    return missing


def _write_provenance(target: Path, version: str, images: ImageOptions) -> None:
    document = statement(
        sorted(DIST.iterdir()),
        commit=run("git", "rev-parse", "HEAD"),
        repository=run("git", "config", "--get", "--default=", "remote.origin.url"),
        parameters={
            "version": version,
            "platforms": list(images.platforms),
            "targets": list(images.targets),
            "hasUncommittedChanges": bool(run("git", "status", "--porcelain")),
        },
        inputs=(
            CONSTRAINTS,
            *(CONSTRAINTS.with_name(f"{name}-constraints.txt") for name in ("build", "dev")),
            DOCKERFILE,
        ),
        root=ROOT,
    )
    target.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _helm() -> str:
    found = shutil.which("helm") or shutil.which(ROOT / "build" / "tools" / "helm")
    if found is None:
        raise ReleaseRefused("helm is not installed; python3 -m tests.system.deploy.install fetches it")
    return found


def _write_sbom(wheel: Path, target: Path, epoch: str) -> None:
    """Write a CycloneDX document of the wheel with its dependencies, as the image has them."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder)
        python = Path(folder) / "bin" / "python"
        install = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet")
        run(*install, "--require-hashes", "--requirement", CONSTRAINTS)
        run(*install, "--no-deps", wheel)
        run(
            *(sys.executable, "-m", "cyclonedx_py", "environment", "--pyproject", ROOT / "pyproject.toml"),
            *("--output-reproducible", "--output-file", target, python),
            SOURCE_DATE_EPOCH=epoch,
        )


def _build_images(version: str, options: ImageOptions) -> Iterator[str]:
    """Build the images as `docker load` reads them; yield what could not be built."""
    buildah = shutil.which("buildah")
    revision = run("git", "rev-parse", "HEAD")
    created = run("git", "log", "-1", "--format=%cI")
    for target in options.targets:
        name = f"{IMAGE}:{version}{TARGETS[target]}"
        if buildah is not None:
            subprocess.run([buildah, "manifest", "rm", name], capture_output=True, check=False)  # of an earlier build
        for each in options.platforms:
            reason = "buildah is not installed" if buildah is None else _cannot_run(each)
            if reason or buildah is None:
                yield f"image {name} for {each}: {reason}"
                continue
            labels = [f"--build-arg=VERSION={version}", f"--build-arg=REVISION={revision}"]
            labels.append(f"--build-arg=CREATED={created}")
            words = [*("--platform", each, "--target", target, "--manifest", name), *labels, *options.build]
            try:
                words += ["--format=docker", "--quiet", "--file", str(DOCKERFILE), str(ROOT)]
                image = run(buildah, "build", *words).splitlines()[-1]
            except ReleaseRefused as error:
                yield f"image {name} for {each}: {error}"
                continue
            archive = DIST / f"pulsed-image-{version}{TARGETS[target]}-{each.replace('/', '-')}.tar"
            run(buildah, "push", "--quiet", image, f"docker-archive:{archive}:{name}")


def _cannot_run(wanted: str) -> str:
    """Return why programs of a platform do not run on this machine; empty if they do."""
    machine = _MACHINES[wanted]
    handler = Path(f"/proc/sys/fs/binfmt_misc/qemu-{machine}")
    if platform.machine() == machine or (handler.exists() and handler.read_text().startswith("enabled")):
        return ""
    return f"{platform.machine()} does not run {machine} programs; apt-get install qemu-user-static binfmt-support"


def release(version: str | None, images: ImageOptions, *, is_partial: bool) -> None:
    """Cut a release, or with None build the files of the current version.

    Args:
        is_partial: whether a release without some of the packages and images is accepted.

    Raises:
        ReleaseRefused: it cannot be made.
    """
    if version is not None:
        prepare(version, [] if is_partial else missing_tools(images))
    missing = build(images)
    for file in sorted(DIST.iterdir()):
        print(f"dist/{file.name}")
    for line in missing:
        print(f"NOT BUILT: {line}", file=sys.stderr)
    if not (DIST / "SHA256SUMS.minisig").exists():
        print("NOT SIGNED: MINISIGN_KEY is not set; it is the content of a minisign secret key", file=sys.stderr)
    if missing and not is_partial:
        raise ReleaseRefused("not everything was built, and nothing was tagged; see above, or use ARGS=--partial")
    if version is not None:
        run("git", "tag", "--annotate", f"v{version}", "--message", f"pulsed {version}")
        print(f"tagged v{version}; publish with: git push --follow-tags")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("version", nargs="?", help="for example 1.2.3; none: build the files of the current version")
    parser.add_argument(
        "--platforms", default=",".join(PLATFORMS), help="of packages and images (default: %(default)s)"
    )
    parser.add_argument("--targets", default=",".join(TARGETS), help="stages of the Dockerfile (default: %(default)s)")
    parser.add_argument("--build-option", action="append", default=[], help="further option of `buildah build`")
    parser.add_argument("--partial", action="store_true", help="accept that packages or images could not be built")
    options = parser.parse_args(arguments)
    images = ImageOptions(options.platforms.split(","), options.targets.split(","), options.build_option)
    try:
        release(options.version, images, is_partial=options.partial)
    except ReleaseRefused as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
