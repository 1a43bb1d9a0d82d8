"""The files of the page, as they are sent: read and compressed once, by the first request for one of them.

All files but the page itself are below a path with the hash of all contents, so that browsers keep them until they
change. There is no build step: the files are in `pulsed/present/web/assets/`.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent / "assets"

PAGE = "index.html"
"""The page itself: a template with `{{base}}`, `{{static}}`, `{{preload}}`, `{{metrics}}` and `{{version}}`."""

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'self'; form-action 'none'; frame-ancestors 'self'; require-trusted-types-for 'script'"
)
"""Of the page: nothing from elsewhere, no inline script or style, no markup from strings."""

_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    "": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is sent."""

    body: bytes
    compressed: bytes
    media_type: str
    etag: str

    @classmethod
    def from_content(cls, body: bytes, suffix: str) -> Asset:
        """Return an asset with this content."""
        return cls(body, gzip.compress(body, mtime=0), _MEDIA_TYPES[suffix], f'"{_digest(body)}"')


@dataclass(frozen=True, slots=True)
class Assets:
    """All files by path below the folder, with a hash of all contents; the page itself is a template."""

    version: str
    files: Mapping[str, Asset]
    template: str

    @classmethod
    def load(cls, folder: Path = FOLDER) -> Assets:
        """Read and compress the files of a folder."""
        paths = sorted(path for path in folder.rglob("*") if path.suffix in _MEDIA_TYPES and path.is_file())
        bodies = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        version = _digest(b"".join(name.encode() + b"\0" + body for name, body in bodies.items()))
        template = bodies.pop(PAGE).decode()
        return cls(
            version, {name: Asset.from_content(body, Path(name).suffix) for name, body in bodies.items()}, template
        )

    def page(self, release: str, telemetry_path: str, external_path: str | None) -> Asset:
        """Return the page; `external_path` is as in `ApiParts`."""
        static = f"static/{self.version}"
        modules = [name for name in self.files if name.endswith(".js") and "/" in name and "vendor/" not in name]
        values = {
            "base": "" if external_path is None else f'<base href="{escape(external_path)}/">',
            "static": static,
            "preload": "\n".join(f'<link rel="modulepreload" href="{static}/{name}">' for name in modules),
            "metrics": escape(telemetry_path[1:]),
            "version": escape(release),
        }
        text = self.template
        for name, value in values.items():
            text = text.replace(f"{{{{{name}}}}}", value)
        return Asset.from_content(text.encode(), ".html")


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()
