"""``check --output-format html``: a page with a picture of each finding."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from streamlint.cli import main
from streamlint.output import html
from tests.test_confirm_html import SOURCE, checked

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = SOURCE.replace("x = torch", "x = '</script><script>alert(1)</script>' and torch")


def report(folder: Path, *names: str, status: int = 1, more: tuple[str, ...] = ("--no-cache",)) -> str:
    page = folder / "report.html"
    paths = [str(folder / name) for name in names]
    assert main(["check", *paths, "--output-format", "html", "--output", str(page), "-q", *more]) == status
    return page.read_text("utf-8")


@pytest.mark.parametrize("source", [SOURCE, HOSTILE], ids=["plain", "hostile"])
def test_each_finding_has_a_picture_and_a_story(tmp_path: Path, source: str) -> None:
    (tmp_path / "source.py").write_text(source, "utf-8")
    page = report(tmp_path, "source.py")
    text = checked(page)
    assert page.count("<svg") == 1
    assert re.search(r"<td>SL\d+</td><td>(certain|likely|possible)</td>", page)
    assert "A    9         x.fill_(7.0)" in text
    assert "B   10     return x.sum().item()" in text
    assert "How it goes wrong" in text
    assert "B has read x as it was before A" in text


def test_a_page_has_so_many_pictures_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is as much work as the function is long: thousands of findings of one took minutes."""
    monkeypatch.setattr(html, "MOST_PICTURES", 2)
    body = SOURCE.partition("def ")[2]
    (tmp_path / "source.py").write_text(
        "import torch\n" + "".join(f"def f{n}_{body}" for n in range(3)), "utf-8"
    )
    page = report(tmp_path, "source.py")
    assert page.count("<svg") == 2
    assert page.count('<section id="f') == 3
    assert "The first 2 have a picture" in checked(page)


def test_findings_that_are_kept_of_an_earlier_run_have_pictures_too(tmp_path: Path) -> None:
    (tmp_path / "source.py").write_text(SOURCE, "utf-8")
    for _ in range(2):
        page = report(tmp_path, "source.py", more=("--cache-dir", str(tmp_path / "cache")))
        assert page.count("<svg") == 1


def test_places_in_a_notebook_are_those_of_its_cells(tmp_path: Path) -> None:
    cells = [["import torch\n"], SOURCE.splitlines(keepends=True)[1:], ["races()\n"]]
    document = {
        "cells": [{"cell_type": "code", "source": cell, "metadata": {}, "outputs": []} for cell in cells],
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    (tmp_path / "book.ipynb").write_text(json.dumps(document), "utf-8")
    text = checked(report(tmp_path, "book.ipynb"))
    assert "book.ipynb:cell 2" in text
    assert "A    8         x.fill_(7.0)" in text


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "source.py").write_text(SOURCE, "utf-8")
    (tmp_path / "broken.py").write_text("import torch\ndef f(:\n", "utf-8")
    assert "broken.py:2" in checked(report(tmp_path, "source.py", "broken.py", status=2))
