"""The deb and the rpm under a real systemd: installed, changed, upgraded, removed and purged."""

from __future__ import annotations

import gzip
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pulsed import __version__
from tests.support.debian_tree import bookworm
from tests.support.tools import tool
from tests.system.deploy.tools import fetched
from tests.system.systemd.ansible_role import follow_the_role
from tests.system.systemd.boot import ROOT, boot, trixie
from tests.system.systemd.conftest import NEW_VERSION, once
from tools import system_packages
from tools.package_documents import write_debian_changelog, write_documents
from tools.system_packages import ARCHITECTURES, PYTHONS, build_deb, build_rpm, unpack_wheels

INSIDE = Path(__file__).with_name("inside_packages.py")
DEB = [
    "first_sample",
    "contents",
    "reload",
    "documented_commands",
    "wrong_configuration",
    "sockets",
    "upgrade",
    "remove",
    "purge",
]
RPM = ["rpm_install", "rpm_reload", "rpm_upgrade", "rpm_remove"]
EPOCH = "1700000000"


DEBIAN_12 = ("3.11",)
"""Its Python. Packages for all of `PYTHONS`, as they are released, take a minute more."""


@pytest.fixture(scope="session")
def packages(
    tmp_path_factory: pytest.TempPathFactory, wheel: Path, newer_wheel: Path
) -> Callable[[Sequence[str]], Path]:
    """Folders with packages for some Pythons: of this version in `old`, and of a later one in `new`."""
    tool("dpkg-deb", "dpkg")
    tool("rpmbuild", "rpm")

    def build(folder: Path) -> None:
        here, environment = ARCHITECTURES[0], tmp_path_factory.mktemp("unpacked") / "environment"
        unpack_wheels(here, environment)
        for name, version, built in (("old", __version__, wheel), ("new", NEW_VERSION, newer_wheel)):
            (folder / name).mkdir()
            for build_package in (build_deb, build_rpm):
                build_package(here, environment, built, version, folder / name, EPOCH)

    def for_pythons(pythons: Sequence[str]) -> Path:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(system_packages, "PYTHONS", pythons)
            return once(tmp_path_factory, f"packages-{len(pythons)}", build)

    return for_pythons


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tree", "steps", "pythons"),
    [
        pytest.param(bookworm, DEB + RPM, DEBIAN_12, id="debian12"),
        pytest.param(trixie, DEB, PYTHONS, id="debian13", marks=pytest.mark.nightly),
    ],
)
def test_every_step_works_under_systemd(
    packages: Callable[[Sequence[str]], Path],
    tmp_path: Path,
    tree: Callable[[], Path],
    steps: list[str],
    pythons: Sequence[str],
) -> None:
    rows = boot(tree(), packages(pythons), INSIDE, tmp_path)
    for row in rows:
        print(row)
    assert [row for row in rows if not row["ok"]] == []
    assert [row["step"] for row in rows] == steps


@pytest.mark.nightly
def test_every_step_of_the_ansible_role_works_with_a_deb(
    packages: Callable[[Sequence[str]], Path], tmp_path: Path
) -> None:
    old, new = (next((packages(PYTHONS) / name).glob("*.deb")) for name in ("old", "new"))
    follow_the_role(tmp_path / "check", old, new, tmp_path)


def test_an_rpm_names_files_that_distributions_have(packages: Callable[[Sequence[str]], Path]) -> None:
    (package,) = (packages(DEBIAN_12) / "old").glob("*.rpm")

    def query(*words: str) -> str:
        return subprocess.run(
            [tool("rpm", "rpm"), "--query", "--package", *words, package], capture_output=True, text=True, check=True
        ).stdout

    requires = query("--requires")
    assert all(f"/usr/bin/python{version}" in requires for version in PYTHONS)
    assert set(query("--configfiles").split()) == {"/etc/default/pulsed", "/etc/pulsed/config.yaml"}
    listed = query("--queryformat", "[%{FILENAMES} %{FILEUSERNAME} %{FILEGROUPNAME} %{FILEMODES:octal}\n]")
    owners = {tuple(line.split()[1:3]) for line in listed.splitlines()}
    assert owners == {("root", "root")}
    assert re.search(r"^/etc/pulsed/config.yaml root root 100640$", listed, re.MULTILINE)
    assert "/usr/share/zsh/site-functions/_pulsed" in listed
    scripts = re.split(r"^\w+ scriptlet \(using /bin/sh\):$", query("--scripts"), flags=re.MULTILINE)[1:]
    assert len(scripts) == 4
    for script in scripts:
        shellcheck: list[str | Path] = [fetched("shellcheck"), "--shell=sh", "-"]
        done = subprocess.run(shellcheck, input=script, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_the_documents_of_a_package_have_no_link_that_leads_nowhere(tmp_path: Path) -> None:
    write_documents(tmp_path, "1.2.3")
    pages = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.md")}
    assert pages >= {str(path.relative_to(ROOT)) for path in ROOT.glob("docs/*.md")} | {
        "README.md",
        "systemd/README.md",
    }
    for page in tmp_path.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
            assert "://" in target or (page.parent / target).exists(), f"{page}: {target}"
    security = (tmp_path / "docs/security.md").read_text()
    assert "https://github.com/pulsed/pulsed/blob/v1.2.3/tests/" in security
    assert (tmp_path / "deploy/dcgm-exporter/counters-pulsed-classic.csv").exists()


def test_the_changelog_of_the_deb_is_one_that_dpkg_reads(tmp_path: Path) -> None:
    write_debian_changelog(tmp_path / "changelog.gz", "1.2.3", int(EPOCH))
    text = gzip.decompress((tmp_path / "changelog.gz").read_bytes()).decode()
    assert text.startswith("pulsed (1.2.3) unstable; urgency=medium\n\n  * ")
    assert text.endswith("\n -- pulsed <pulsed@localhost>  Tue, 14 Nov 2023 22:13:20 +0000\n")
    (tmp_path / "changelog").write_text(text)
    parse: list[str | Path] = [tool("dpkg-parsechangelog", "dpkg-dev"), "-l", tmp_path / "changelog"]
    done = subprocess.run(parse, capture_output=True, text=True, check=True)
    assert (done.stderr, "Version: 1.2.3\n" in done.stdout) == ("", True)


def test_shellcheck_finds_nothing_in_the_scripts_of_the_packages() -> None:
    folder = ROOT / "deploy/packages"
    scripts = [
        folder / "pulsed",
        folder / "compile",
        *(folder / f"deb/{name}" for name in ("postinst", "prerm", "postrm")),
    ]
    done = subprocess.run([fetched("shellcheck"), *scripts], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_launcher_and_dependencies_name_the_pythons_that_wheels_are_packed_for() -> None:
    launcher = (ROOT / "deploy/packages/pulsed").read_text()
    (versions,) = re.findall(r"for version in (.*); do", launcher)
    assert versions.split() == list(reversed(PYTHONS))
    assert all(f"python{version}" in launcher for version in PYTHONS)
    control = (ROOT / "deploy/packages/deb/control").read_text()
    (alternatives,) = re.findall(r"^Depends: ([^,]*),", control, re.MULTILINE)
    assert alternatives.split(" | ") == [f"python{version}" for version in reversed(PYTHONS)]
