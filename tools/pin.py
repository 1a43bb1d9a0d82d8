"""Pins container images and GitHub Actions: a tag can be moved to other content, a digest or commit cannot.

Run as `python -m tools.pin` (`make pins`) to set what the tags of all references stand for today. Needs the network.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from tools.references import IMAGE

ROOT = Path(__file__).resolve().parents[1]
FILES = (".github/workflows/ci.yml", "deploy/container/Dockerfile", "deploy/container/compose.yaml")
DOCKER_HUB = "registry-1.docker.io"
GITHUB = "https://github.com"

_IMAGE = re.compile(
    r"^(?P<before>ARG \w+_IMAGE=| *image: )(?P<name>[\w./-]+):(?P<tag>[\w.-]+)(?:@(?P<pin>sha256:[0-9a-f]{64}))?",
    re.MULTILINE,
)
_ACTION = re.compile(
    r"^(?P<before> *(?:- )?uses: )(?P<name>[\w.-]+/[\w.-]+)@(?:(?P<pin>[0-9a-f]{40}) # )?(?P<tag>\S+)$", re.MULTILINE
)
_MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')


class PinFailed(Exception):
    """A tag cannot be resolved; the message has the reference and the reason."""


@dataclass(frozen=True, slots=True)
class Reference:
    """An image or an action that a file names.

    Attributes:
        kind: `image` or `action`.
        name: without the tag.
        pin: digest or commit; empty if it is not pinned.
    """

    kind: str
    name: str
    tag: str
    pin: str


Resolve = Callable[[Reference], str]
"""Returns what the tag of a reference stands for."""


def references(text: str) -> Iterator[Reference]:
    """Yield the references of a file, but for pulsed's own image."""
    for kind, pattern in (("image", _IMAGE), ("action", _ACTION)):
        for found in pattern.finditer(text):
            if found["name"] != IMAGE:
                yield Reference(kind, found["name"], found["tag"], found["pin"] or "")


def pinned(text: str, resolve: Resolve) -> str:
    """Return the text of a file with all references pinned to what their tags stand for now."""

    def image(found: re.Match[str]) -> str:
        if found["name"] == IMAGE:
            return found[0]
        digest = resolve(Reference("image", found["name"], found["tag"], found["pin"] or ""))
        return f"{found['before']}{found['name']}:{found['tag']}@{digest}"

    def action(found: re.Match[str]) -> str:
        commit = resolve(Reference("action", found["name"], found["tag"], found["pin"] or ""))
        return f"{found['before']}{found['name']}@{commit} # {found['tag']}"

    return _ACTION.sub(action, _IMAGE.sub(image, text))


def digest_of(client: httpx.Client, name: str, tag: str) -> str:
    """Return the digest of an image's index, or of its manifest if it is for one platform only.

    Raises:
        PinFailed: the registry does not know it, or cannot be reached.
    """
    registry, slash, repository = name.partition("/")
    if not slash or not re.search(r"[.:]", registry):
        registry, repository = DOCKER_HUB, name if slash else f"library/{name}"
    url, headers = f"https://{registry}/v2/{repository}/manifests/{tag}", {"Accept": _MANIFESTS}
    try:
        answer = client.head(url, headers=headers)
        if answer.status_code == 401:
            given = dict(_PARAMETER.findall(answer.headers.get("www-authenticate", "")))
            asked = {"service": given.get("service", ""), "scope": f"repository:{repository}:pull"}
            token = client.get(given.get("realm", ""), params=asked).raise_for_status().json()
            headers["Authorization"] = f"Bearer {token.get('token') or token.get('access_token')}"
            answer = client.head(url, headers=headers)
        digest = str(answer.raise_for_status().headers.get("docker-content-digest", ""))
    except (httpx.HTTPError, ValueError) as error:
        raise PinFailed(f"{name}:{tag}: {error}") from error
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise PinFailed(f"{name}:{tag}: {registry} sends no digest, but {digest!r}")
    return digest


def commit_of(repository: str, tag: str) -> str:
    """Return the commit of a tag of a Git repository, also of an annotated one.

    Raises:
        PinFailed: there is no such tag, or the repository cannot be reached.
    """
    words = ["git", "ls-remote", repository, f"refs/tags/{tag}", f"refs/tags/{tag}^{{}}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout:
        raise PinFailed(f"{repository}@{tag}: {done.stderr.strip() or 'there is no such tag'}")
    return done.stdout.splitlines()[-1].split()[0]  # the peeled tag comes last


def main() -> int:
    """Pin all files; return the exit code."""
    with httpx.Client(follow_redirects=True, timeout=30) as client:

        def resolve(reference: Reference) -> str:
            if reference.kind == "image":
                found = digest_of(client, reference.name, reference.tag)
            else:
                found = commit_of(f"{GITHUB}/{reference.name}", reference.tag)
            if found != reference.pin:
                print(f"{reference.name}:{reference.tag}: {reference.pin or 'not pinned'} -> {found}")
            return found

        try:
            texts = {path: pinned((ROOT / path).read_text(encoding="utf-8"), resolve) for path in FILES}
        except PinFailed as error:
            print(f"pin: {error}; nothing was changed", file=sys.stderr)
            return 1
    for path, text in texts.items():
        (ROOT / path).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
