"""The rule pages are written from the rules, and up to date."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import get_args

import pytest

from streamlint import docs
from streamlint.models import describe
from streamlint.models.schema import Effect
from streamlint.settings.catalog import catalog
from streamlint.trace import Space, StreamKind
from tests.cli_support import RULES

PAGES = Path(__file__).parent.parent / "docs" / "rules"


def test_the_pages_are_up_to_date() -> None:
    assert docs.stale(PAGES, catalog()) == [], "run `make docs`"


def test_the_page_about_the_models_is_up_to_date() -> None:
    assert (PAGES.parent / docs.MODELS).read_text(encoding="utf-8") == docs.models_page(), "run `make docs`"


@pytest.mark.parametrize("effect", get_args(Effect), ids=lambda effect: str(effect.__name__))
def test_every_effect_can_be_put_into_words(effect: type[Effect]) -> None:
    """Also with the defaults that no row uses: a name for each field that has none."""
    required = {f.name: f"the_{f.name}" for f in fields(effect) if f.default is MISSING}
    special = {"kind": StreamKind.BLOCKING, "space": Space.DEVICE}
    text = describe.effect(effect(**{name: special.get(name, word) for name, word in required.items()}))  # type: ignore[arg-type]
    assert text
    assert "None" not in text


def test_every_rule_is_documented_in_the_same_shape() -> None:
    codes = [rule.code for rule in catalog()]
    assert codes == sorted(set(codes))
    for rule in catalog():
        assert re.fullmatch(r"SL\d{3}", rule.code)
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)
        assert rule.summary.strip()
        assert not rule.summary.endswith(".")
        assert rule.default is not rule.code.startswith("SL9"), "advice is off unless selected"
        assert "## What it does" in rule.doc, rule.code
        assert "## Why" in rule.doc, rule.code


def test_write_and_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamlint.docs.catalog", lambda: RULES)
    folder = tmp_path / "docs" / "rules"
    about_models = tmp_path / "docs" / docs.MODELS
    assert docs.main([str(folder), "--check"]) == 1
    assert docs.main([str(folder)]) == 0
    assert docs.main([str(folder), "--check"]) == 0
    assert "| [SL101](SL101.md) | unordered-read | error | yes |" in (folder / "README.md").read_text()
    assert "Off unless selected: `--select SL901`." in (folder / "SL901.md").read_text()
    about_models.write_text("changed by hand\n")
    assert docs.main([str(folder), "--check"]) == 1
    (folder / "SL777.md").write_text("a rule that is gone\n")
    (folder / "SL101.md").write_text("changed by hand\n")
    assert docs.stale(folder, RULES) == ["SL101.md", "SL777.md"]
    docs.main([str(folder)])
    assert docs.stale(folder, RULES) == []
