from __future__ import annotations

import json
from math import inf, nan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.json_text import json_text, write_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"a": [1, 2.5, "é", None, True]}, '{"a":[1,2.5,"\\u00e9",null,true]}'),
        ({"a": (inf, -inf, nan, 1.0), "b": {"c": nan}}, '{"a":[null,null,null,1.0],"b":{"c":null}}'),
        ([10**400, 10**5000], "[null,null]"),
        ([10**400], f"[{10**400}]"),
    ],
)
def test_documents(document: object, text: str) -> None:
    assert json_text(document) == text


@given(VALUES)
def test_any_document_can_be_read(document: object) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(json_text(document), parse_constant=refuse)


def test_a_file(tmp_path: Path) -> None:
    for document, text in (({"a": 1}, '{"a":1}'), ({"b": [1, nan]}, '{"b":[1,null]}')):
        with (tmp_path / "x").open("w") as file:
            write_json(document, file)
        assert (tmp_path / "x").read_text() == text
