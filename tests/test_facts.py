"""Facts from text are the same whether what was found inside of a circle is kept for a while or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint import ir
from streamlint.interp.facts import circles, known, scopes
from streamlint.interp.state.budgets import Most
from streamlint.interp.state.project import Project
from streamlint.lower import index_module

if TYPE_CHECKING:
    from streamlint.interp.facts.kinds import Fact

IN_CIRCLES = """
import torch

def half(x, depth):
    return both(x, depth - 1) if depth else torch.sigmoid(x)

def both(x, depth):
    first, second = half(x, depth), turned(x, depth)
    return first + second

def turned(y, times):
    y = both(y, times) if times else half(y, times)
    return other(y, times)

def other(z, n):
    kept = turned(z, n) if n else z
    return both(kept, n) if n > 2 else len(kept)

class Loader:
    def __init__(self, page):
        self.page = torch.empty(4, pin_memory=True)
        self.next = page

    def load(self, page):
        self.next = self.turn(page)
        return half(self.next, 3)

    def turn(self, page):
        self.page = self.load(page)
        return other(self.page, self.next)

def start(n):
    loader = Loader(half(n, 1))
    return loader.load(turned(loader.page, n)), both(loader.next, n)
"""


def _facts(module: ir.Module) -> list[Fact]:
    facts = known.Facts(Project(lambda name: module if name == module.name else None))
    found = []
    for decl, cls in scopes.methods_and_functions(module):
        scope = scopes.scope_of(module, decl, cls)
        assert scope is not None
        found += [facts.of_param(scope, param.name) for param in scope.function.params]
        found.append(facts.of_return(module, decl, cls))
    return found + [facts.of_field(cls, name) for cls in ir.all_classes(module) for name in ("page", "next")]


@pytest.mark.parametrize("most", [3, 6, 24])
def test_partial_answers_are_those_that_would_be_found_again(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = index_module(IN_CIRCLES, "loops.py", "loops", False)
    monkeypatch.setattr(circles, "MOST_OPEN", Most(most, "what values are"))
    kept = _facts(module)
    monkeypatch.setattr(circles._Partial, "holds", lambda *_: False)
    assert kept == _facts(module)
