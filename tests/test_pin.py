"""Images and actions are pinned, and `tools.pin` pins them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import httpx
import pytest

from tools.pin import FILES, PinFailed, Reference, commit_of, digest_of, pinned, references

ROOT = Path(__file__).parents[1]
DIGEST = "sha256:" + "ab" * 32
COMMIT = "cd" * 20


def test_all_images_and_actions_are_pinned() -> None:
    found = [each for path in FILES for each in references((ROOT / path).read_text())]
    assert len([each for each in found if each.kind == "image"]) >= 6
    assert [each.name for each in found if not each.pin] == []
    assert {each.name for each in found if each.kind == "action"} == {
        "actions/checkout",
        "actions/download-artifact",
        "actions/upload-artifact",
    }


def test_no_reference_is_overlooked() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    names = re.compile(r"Dockerfile|Containerfile|compose.*\.ya?ml|action\.ya?ml")
    wanted = {
        path for path in tracked if path.startswith(".github/workflows/") or names.fullmatch(path.rpartition("/")[2])
    }
    assert wanted == set(FILES)
    for path in FILES:
        text = (ROOT / path).read_text()
        lines = re.findall(r"^(?:ARG \w+_IMAGE=| *image: | *(?:- )?uses: ).*", text, re.MULTILINE)
        own = len(re.findall(r"image: registry\.example/pulsed:", text))
        assert len(lines) == len(list(references(text))) + own, path
        bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
        assert all(re.fullmatch(r"\$\{\w+_IMAGE\}", base) for base in bases), "a base image is an argument"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ARG A_IMAGE=python:3.13-slim\n", f"ARG A_IMAGE=python:3.13-slim@{DIGEST}\n"),
        (f"  image: a.io/b/c:v1@sha256:{'0' * 64}\n", f"  image: a.io/b/c:v1@{DIGEST}\n"),
        ("      - uses: actions/checkout@v4\n", f"      - uses: actions/checkout@{COMMIT} # v4\n"),
        (f"    - uses: a/b@{'0' * 40} # v4.3.1\n", f"    - uses: a/b@{COMMIT} # v4.3.1\n"),
        ("  image: registry.example/pulsed:1.2.3\n", "  image: registry.example/pulsed:1.2.3\n"),
        ("image:\n  tag: x\n# uses: nothing\n", "image:\n  tag: x\n# uses: nothing\n"),
    ],
)
def test_references_are_pinned(before: str, after: str) -> None:
    def resolve(reference: Reference) -> str:
        return DIGEST if reference.kind == "image" else COMMIT

    assert pinned(before, resolve) == after
    assert pinned(after, resolve) == after


class Registry:
    """A registry that gives a digest to those who bring the token that it names."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(str(request.url))
        if request.url.host == "auth.example":
            return httpx.Response(200, json={"token": f"for {request.url.params['scope']}"})
        if not request.url.path.endswith("/v1"):
            return httpx.Response(404)
        if "oci.image.index" not in request.headers["accept"] or "authorization" not in request.headers:
            realm = 'Bearer realm="https://auth.example/token",service="registry"'
            return httpx.Response(401, headers={"www-authenticate": realm})
        assert request.headers["authorization"].startswith("Bearer for repository:")
        return httpx.Response(200, headers={"docker-content-digest": DIGEST})


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("python", "https://registry-1.docker.io/v2/library/python/manifests/v1"),
        ("prom/prometheus", "https://registry-1.docker.io/v2/prom/prometheus/manifests/v1"),
        ("nvcr.io/nvidia/k8s/x", "https://nvcr.io/v2/nvidia/k8s/x/manifests/v1"),
    ],
)
def test_the_digest_of_an_image(name: str, url: str) -> None:
    registry = Registry()
    with httpx.Client(transport=httpx.MockTransport(registry)) as client:
        assert digest_of(client, name, "v1") == DIGEST
        assert registry.asked[0] == registry.asked[-1] == url
        with pytest.raises(PinFailed, match=rf"^{name}:v2: .*404"):
            digest_of(client, name, "v2")


def test_a_registry_without_a_digest_is_refused() -> None:
    with (
        httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200))) as client,
        pytest.raises(PinFailed, match="sends no digest"),
    ):
        digest_of(client, "python", "v1")


def test_the_commit_of_a_tag(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        author = ("-c", "user.name=test", "-c", "user.email=test@localhost")
        done = subprocess.run(["git", *author, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "one")
    git("tag", "v1")
    git("tag", "--annotate", "v2", "--message", "two")
    assert commit_of(str(tmp_path), "v1") == commit_of(str(tmp_path), "v2") == git("rev-parse", "HEAD")
    with pytest.raises(PinFailed, match="there is no such tag"):
        commit_of(str(tmp_path), "v3")
    with pytest.raises(PinFailed, match="nowhere"):
        commit_of(str(tmp_path / "nowhere"), "v1")
