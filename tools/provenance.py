"""The provenance of a release, an in-toto statement with SLSA's predicate: which files, from which commit, by whom."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tools.pin import references

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:pulsed:tools.release:v1"
LOCAL_BUILDER = "urn:pulsed:local"
"""Builder of a release that was not made by a workflow of GitHub."""


def sha256(file: Path) -> str:
    """Return the digest of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def statement(
    files: Iterable[Path],
    *,
    commit: str,
    repository: str,
    parameters: Mapping[str, object],
    inputs: Iterable[Path],
    root: Path,
    environment: Mapping[str, str] = os.environ,
) -> dict[str, Any]:
    """Return the statement about files that were built.

    Args:
        files: what was built.
        commit: what it was built from.
        repository: URL of its repository; empty if it has none.
        parameters: of the build.
        inputs: files of the commit that name other inputs: pinned packages and base images.
        root: the folder of the repository.
        environment: variables of the process, of which GitHub sets some.
    """
    named = [(path.relative_to(root).as_posix(), path) for path in inputs]
    images = {each for _, path in named for each in references(path.read_text(encoding="utf-8")) if each.pin}
    source = {"uri": f"git+{repository or root.as_uri()}", "digest": {"gitCommit": commit}}
    server, workflow = environment.get("GITHUB_SERVER_URL", ""), environment.get("GITHUB_WORKFLOW_REF", "")
    run = f"{server}/{environment.get('GITHUB_REPOSITORY', '')}/actions/runs/{environment.get('GITHUB_RUN_ID', '')}"
    return {
        "_type": STATEMENT,
        "subject": [{"name": file.name, "digest": {"sha256": sha256(file)}} for file in files],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": dict(parameters),
                "resolvedDependencies": [
                    source,
                    *({"uri": f"file:{name}", "digest": {"sha256": sha256(path)}} for name, path in named),
                    *(
                        {"uri": f"docker://{each.name}:{each.tag}", "digest": {"sha256": each.pin.partition(":")[2]}}
                        for each in sorted(images, key=lambda each: each.name)
                    ),
                ],
            },
            "runDetails": {
                "builder": {"id": f"{server}/{workflow}" if workflow else LOCAL_BUILDER},
                **({"metadata": {"invocationId": run}} if workflow else {}),
            },
        },
    }
