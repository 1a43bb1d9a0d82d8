"""The pictures of `pulsed top` show what it shows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

from tools.draw_terminal import FRAMES, NO_BREAK, PICTURES, draw


def test_the_pictures_are_current(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as beside:  # it runs event loops
        beside.submit(draw, tmp_path).result()
    for name in FRAMES:
        drawn = (tmp_path / f"{name}.svg").read_text(encoding="utf-8")
        assert drawn == (PICTURES / f"{name}.svg").read_text(encoding="utf-8"), "make docs"
        assert len(drawn) < 40_000
        texts = [each.text or "" for each in ElementTree.fromstring(drawn).iter() if each.tag.endswith("text")]
        assert any(f"H100{NO_BREAK}80GB" in text for text in texts)
        assert "CRIT" in drawn
