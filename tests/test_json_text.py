from __future__ import annotations

import json
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.json_text import json_bytes

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"a": [1, 2.5, "é", None, True]}, '{"a":[1,2.5,"é",null,true]}'),
        ({"a": (inf, -inf, nan, 1.0), "b": {"c": nan}}, '{"a":[null,null,null,1.0],"b":{"c":null}}'),
        ([10**400, 10**5000], "[null,null]"),
        ([10**400], f"[{10**400}]"),
        ([2**64, "\ud800", nan], '[18446744073709551616,"\\ud800",null]'),
    ],
)
def test_documents(document: object, text: str) -> None:
    assert json_bytes(document).decode() == text


@given(VALUES)
def test_any_document_can_be_read(document: object) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(json_bytes(document), parse_constant=refuse)
