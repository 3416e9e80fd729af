"""The page about WSGI names tests: they are there."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "wsgi.md"


def test_every_test_that_the_page_names_is_there() -> None:
    sources = "".join(path.read_text() for path in HERE.rglob("test_*.py"))
    there = set(re.findall(r"^def (test_\w+)", sources, re.MULTILINE))
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text()))
    assert len(named) > 40
    assert named - there == set()
