from __future__ import annotations

import pytest

from tests.support.tools import tool


def test_a_missing_program_skips_a_test_with_the_remedy_and_fails_it_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"^no-such-program is not installed: apt-get install package$"):
        tool("no-such-program", "package")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no-such-program"):
        tool("no-such-program", "package")
    assert tool("sh", "dash").endswith("/sh")
