"""The documents of `docs/` as pages for browsers, without scripts and without anything from elsewhere."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

from markdown_it import MarkdownIt
from markdown_it.token import Token

from pulsed.present.web import Asset

_PACKAGED, _CHECKOUT = Path(__file__).parents[2] / "files" / "docs", Path(__file__).parents[3] / "docs"

_STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem}"
    "table{border-collapse:collapse;display:block;overflow-x:auto}th,td{border:1px solid #8886;padding:.3rem .6rem;"
    "text-align:left;vertical-align:top}pre{overflow-x:auto;padding:.6rem;background:#8882}:target{background:#fc06}"
)
DOCUMENT_POLICY = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""Content security policy of a document: its own style and nothing else."""

_PAGE = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    "<title>pulsed: {title}</title><style>" + _STYLE.replace("{", "{{").replace("}", "}}") + "</style></head>\n"
    '<body><nav><a href="README">Documents</a></nav>\n<main>\n{body}</main></body></html>\n'
)


@cache
def documents() -> Mapping[str, Asset]:
    """Return the page of each document, by name without `.md`."""
    folder = _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))}
    return MappingProxyType(
        {name: Asset.from_content(page(text, texts).encode(), ".html") for name, text in texts.items()}
    )


def page(text: str, names: Mapping[str, object]) -> str:
    """Return a document as HTML: headings have anchors, and links lead to the documents of these names.

    A link to another file of the repository is its text alone. Of HTML, only the line breaks of tables are kept.
    """
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(text)
    headings: list[str] = []
    for heading, content in pairwise(tokens):
        if heading.type == "heading_open":
            headings.append(content.content)
            heading.attrSet("id", anchor(content.content))
        content.children = _with_links(content.children or [], names)
    body = markdown.renderer.render(tokens, markdown.options, {}).replace("&lt;br&gt;", "<br>")
    return _PAGE.format(title=escape(headings[0] if headings else ""), body=body)


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it.

    >>> anchor("`warn`: drain the node, then restart it")
    'warn-drain-the-node-then-restart-it'
    """
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _with_links(tokens: Sequence[Token], names: Mapping[str, object]) -> list[Token]:
    """Return the tokens of a text with links to pages; the markup of other links is left out."""
    kept, is_open = [], False
    for token in tokens:
        if token.type == "link_open":
            path, _, heading = str(token.attrGet("href")).partition("#")
            is_open = re.match(r"https?://", path) is not None or not path or path.removesuffix(".md") in names
            if is_open and not path.startswith("http"):
                token.attrSet("href", path.removesuffix(".md") + (f"#{heading}" if heading else ""))
        if is_open or token.type not in ("link_open", "link_close"):
            kept.append(token)
    return kept
