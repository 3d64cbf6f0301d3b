"""What stands at the place of a lowered node, cut out of the text, parses to a node of the same kind."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from streamlint import ir
from streamlint.lower import index_module
from streamlint.parsing import parses
from tests.test_lower_properties import everything

if TYPE_CHECKING:
    from streamlint.source import Span

KINDS: dict[type[Any], tuple[type[ast.AST], ...]] = {
    ir.Name: (ast.Name,),
    ir.Attr: (ast.Attribute, ast.Call),  # getattr(x, "wait") is x.wait
    ir.Call: (ast.Call,),
    ir.Index: (ast.Subscript,),
    ir.Const: (ast.Constant,),
    ir.Slice: (ast.Slice,),
    ir.Seq: (ast.Tuple, ast.List, ast.Set),
    ir.DictDisplay: (ast.Dict,),
    ir.Star: (ast.Starred,),
    ir.Unary: (ast.UnaryOp,),
    ir.Binary: (ast.BinOp,),
    ir.Compare: (ast.Compare,),
    ir.Boolean: (ast.BoolOp, ast.Compare),  # a < b < c
    ir.Choice: (ast.IfExp,),
    ir.Comprehension: (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    ir.Lambda: (ast.Lambda,),
    ir.Bind: (ast.NamedExpr,),
    ir.Await: (ast.Await,),
    ir.Yield: (ast.Yield, ast.YieldFrom),
    ir.Opaque: (ast.JoinedStr,),
    ir.If: (ast.If,),
    ir.For: (ast.For, ast.AsyncFor),
    ir.While: (ast.While,),
    ir.With: (ast.With, ast.AsyncWith),
    ir.FunctionDef: (ast.FunctionDef, ast.AsyncFunctionDef),
    ir.Eval: (ast.Expr,),
    ir.Assign: (ast.Assign, ast.AnnAssign),
    ir.Declare: (ast.AnnAssign,),
    ir.AugAssign: (ast.AugAssign,),
    ir.Assert: (ast.Assert,),
}

NAMES = st.sampled_from(["x", "side", "ströme", "流", "self"])
LEAVES = NAMES | st.sampled_from(["1", "2.5j", "None", "('a' # ü:\n 'b')", "b'x'", "...", "()", "[]", "{}"])
# A § stands for another expression.
TEMPLATES = [
    *("§.wait(§)", "§(\n§, *§, k=§, **§)", "§(k=§, *§)", "§.lane", "getattr(§, 'wait')", "(§)"),
    *("§[§]", "§[§:§, ::§]", "§[ § : ]", "(§, §)", "(§,)", "((§, *§))", "[§, *§]", "{ §, § }"),
    *("{ §: §, **§ }", "(not §)", "(-§)", "(§ @ § - §)", "(x < self[§] is not side)", "(§ and § and §)"),
    *("((§ or §) or §)", "(§ if § else §)", "[§ for x in § if §]", "{x: § for x, y in § for z in §}"),
    *("sum(§ for x in §)", "(lambda q=§, *a: §)", "(y := §)", "(await §)", "(yield §)", "(yield from §)"),
]
FIELDS = ['f"ü § {§} {§}"', "f\"{§:>{§}}\" 'ü'", 'f"{§!r} { § }{§=}"', "'ü' f'''\n ü {§} \n  {§}\n'''"]
HEADERS = [
    *("if §:\n  pass\nelif § :\n  pass\nelse: pass", "for i, ü in §, : # ü: x\n  pass\nelse:\n  x"),
    *("while § :\n  break", "with § as a, § as (ü) : pass", "with (§ as a, # x:\n §\n): # y\n  pass"),
    *("async with §: §", "def ü(a: § = §, *b, c=§ # :\n ) -> §: # :\n  pass"),
]
SIMPLE = ["§", "x = y = §", "x: § = §", "(x): §", "x += §", "assert §, §", "x = ü = §; §; y = §"]


def filled(templates: list[str], parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """One of some texts, with parts in it."""

    def of(template: str) -> st.SearchStrategy[str]:
        begin, *rest = template.split("§")
        chosen = st.tuples(*[parts] * len(rest))
        return chosen.map(lambda each: begin + "".join(a + b for a, b in zip(each, rest, strict=True)))

    return st.sampled_from(templates).flatmap(of)


ATOMS = LEAVES | filled(FIELDS, NAMES)
EXPRESSIONS = st.recursive(ATOMS, lambda parts: filled(TEMPLATES, parts), max_leaves=12)
STATEMENTS = filled(HEADERS + SIMPLE, EXPRESSIONS)


def cut(text: str, span: Span) -> str:
    lines = text.split("\n")[span.line - 1 : span.end_line]
    lines[-1] = lines[-1][: span.end_col]
    lines[0] = lines[0][span.col :]
    return "\n".join(lines)


def parsed(node: object, text: str) -> object:
    """What a text is, read as a node of some kind."""
    if isinstance(node, (ir.Seq, ir.Slice)):
        return ast.parse(f"x[\n{text}\n]", mode="eval").body.slice  # type: ignore[attr-defined]
    if isinstance(node, ir.Star):
        return ast.parse(f"[\n{text}\n]", mode="eval").body.elts[0]  # type: ignore[attr-defined]
    if isinstance(node, ir.Expr):
        return ast.parse(f"(\n{text}\n)", mode="eval").body
    if isinstance(node, (ir.If, ir.For, ir.While, ir.With, ir.FunctionDef)):
        text = f"{text.removeprefix('el')} pass"
    return ast.parse(f"async def f():\n {text}").body[0].body[0]  # type: ignore[attr-defined]


def check(text: str) -> None:
    """That each node of the function ``f`` in a text stands where it says."""
    assume(parses(text))  # no ``await`` in a lambda, no ``yield`` in a comprehension
    function = index_module(text, "m.py", "m", is_package=False).functions["f"].load()
    for node in everything(function.body):
        expected = KINDS.get(type(node))
        if expected is not None:
            found = cut(text, node.span)  # type: ignore[attr-defined]
            assert isinstance(parsed(node, found), expected), (node, found)


def function_of(statements: list[str]) -> str:
    body = "\n".join(statements).replace("\n", "\n    ")
    return f"# ü\nasync def f(self):\n    {body}\n"


@settings(max_examples=100, deadline=None)
@given(st.lists(STATEMENTS, min_size=1, max_size=3))
def test_what_stands_at_a_place_is_the_node(statements: list[str]) -> None:
    check(function_of(statements))
