"""Symbols tell unknown values apart: by what they are made of, never by a text."""

from __future__ import annotations

import ast
import gc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamlint.interp.state import once, symbols
from streamlint.interp.state.symbols import Attr, Binary, Compare, Fresh, Item, Not, Param, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.symbols import Symbol

INTERP = Path(symbols.__file__).parents[1]
X = Param(0, "x", False)


def test_equal_symbols_are_one_object() -> None:
    assert Attr(Item(X, symbols.constant(0)), "lens") is Attr(Item(X, symbols.constant(0)), "lens")
    assert Attr(X, "lens") is not Attr(Param(1, "x", False), "lens")


@pytest.mark.parametrize(("one", "other"), [(1, True), (0, False), (1, 1.0), ("1", 1), (None, "None")])
def test_constants_that_python_calls_equal_are_told_apart(one: object, other: object) -> None:
    assert symbols.Const(type(one), one) is not symbols.Const(type(other), other)  # type: ignore[arg-type]


def test_symbols_are_forgotten_when_no_value_has_them() -> None:
    gc.collect()
    once.forget()
    before = len(once._MADE)
    made: list[Symbol] = [Item(Attr(X, f"only here {number}"), X) for number in range(100)]
    assert len(once._MADE) >= before + 2 * len(made)
    once.forget()
    assert Item(Attr(X, "only here 7"), X) is made[7]
    made.clear()
    once.forget()
    assert len(once._MADE) <= before


def test_what_is_forgotten_is_a_part_of_what_was_made() -> None:
    once.forget()
    most = once.Once.most
    for number in range(2 * most):
        Attr(X, f"only here {number}")
    assert len(once._MADE) <= most


def test_what_nobody_has_made_is_not_made_by_asking_for_it() -> None:
    assert once.made_before(Attr, X, "never made") is None
    made = Attr(X, "made")
    assert once.made_before(Attr, X, "made") is made


@pytest.mark.parametrize(
    ("symbol", "text"),
    [
        (X, "0:x"),
        (Param(2, "rest", True), "*2:rest"),
        (Attr(Item(symbols.SELF, symbols.EACH), "stream"), "self[each].stream"),
        (Item(X, symbols.Slice(None, symbols.constant(3), None)), "0:x[:3:]"),
        (symbols.call("len", X, symbols.constant("a")), "len(0:x,'a')"),
        (Binary("%", X, symbols.constant(2)), "(0:x%2)"),
        (Not(Compare("is", X, symbols.NOTHING)), "not (0:x is None)"),
        (Fresh(symbols.call("pool.get"), "pools.py", 3, 5, 1, 0, 2), "pool.get()@3:5#1.0.2"),
    ],
)
def test_messages_tell_a_symbol_as_python_writes_it(symbol: Symbol, text: str) -> None:
    assert text_of(symbol) == text


def test_a_symbol_that_doubles_costs_no_more_than_its_lines() -> None:
    """``a = a + a`` a thousand times, and ``a = a[a]``."""
    one: Symbol = X
    other: Symbol = X
    for _ in range(1_000):
        one, other = Binary("+", one, one), Item(other, other)
    assert len(text_of(one)) <= 1_000
    assert symbols.is_computed(one)
    assert not symbols.is_computed(other)


def test_what_a_symbol_is_reached_from() -> None:
    lens = Attr(Item(Attr(X, "parts"), symbols.constant(0)), "lens")
    assert symbols.root(lens) is X
    assert symbols.is_under(lens, X)
    assert not symbols.is_under(lens, Param(0, "y", False))
    assert not symbols.is_under(Item(X, symbols.constant(0)), X)
    assert symbols.is_under(Fresh(symbols.Call(Attr(X, "get"), ()), "", 1, 0, 0, 0, 0), X)


def test_opposites_of_opposites_ask_the_same() -> None:
    assert symbols.negation(symbols.negation(X)) is X
    assert symbols.question(symbols.negation(X)) == (X, True)


def _made_of_text(tree: ast.AST) -> Iterator[ast.expr]:
    """Arguments of what makes a symbol that are put together from texts."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and _makes_symbol(call.func):
            for argument in call.args:
                if any(_is_put_together(node) for node in _outside_of_calls(argument)):
                    yield argument


def _makes_symbol(func: ast.expr) -> bool:
    match func:
        case ast.Attribute(ast.Name("symbols"), name):
            return name[0].isupper() or name == "call"
        case ast.Name(name):
            return name in ("SymV", "given_by")
        case _:
            return False


def _outside_of_calls(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.Call) and _makes_symbol(child.func)):
            yield from _outside_of_calls(child)


def _is_put_together(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr():
            return True
        case ast.Call(ast.Name("str" | "repr" | "text_of" | "told")):
            return True
        case ast.Call(ast.Attribute(_, "text_of" | "join" | "format" | "replace")):
            return True
        case _:
            return False


def _taken_apart(tree: ast.AST) -> Iterator[ast.expr]:
    """Methods of texts that are called on what a symbol is told as."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ast.Call(ast.Attribute(_, "text_of") | ast.Name("text_of" | "told")), name):
                if name != "lower":
                    yield node


@pytest.mark.parametrize(
    "path", sorted(INTERP.rglob("*.py")), ids=lambda path: path.relative_to(INTERP).as_posix()
)
def test_no_symbol_is_made_from_text_nor_taken_apart_as_text(path: Path) -> None:
    tree = ast.parse(path.read_bytes())
    found = [*_made_of_text(tree), *_taken_apart(tree)]
    assert not [f"{path.name}:{node.lineno}: {ast.unparse(node)}" for node in found]
