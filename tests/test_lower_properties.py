"""Properties of the lowering, held against Python's own parser and compiler as oracles."""

from __future__ import annotations

import ast
import dataclasses
import random
import re
import sysconfig
import types
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlint import ir
from streamlint.lower import index_module
from streamlint.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

Place = tuple[int, int, int, int]
FILES = 15
"""So many of the standard library, the same each time."""


def everything(node: object, *, in_fstrings: bool = True) -> Iterator[object]:
    """A lowered object and all that is in it; nested classes are not loaded."""
    if isinstance(node, tuple):
        for item in node:
            yield from everything(item, in_fstrings=in_fstrings)
        return
    if not dataclasses.is_dataclass(node) or isinstance(node, (Span, ir.ClassDecl)):
        return
    yield node
    if isinstance(node, ir.Opaque) and node.why == "f-string" and not in_fstrings:
        return
    for part in dataclasses.fields(node):
        yield from everything(getattr(node, part.name), in_fstrings=in_fstrings)


def declared(module: ir.Module) -> Iterator[ir.FunctionDecl]:
    yield from module.functions.values()
    for cls in module.classes.values():
        yield from declared_in(cls)


def declared_in(cls: ir.ClassDecl) -> Iterator[ir.FunctionDecl]:
    yield from cls.methods.values()
    yield from cls.setters.values()
    for inner in cls.inner.values():
        yield from declared_in(inner)


def kept(node: ast.AST) -> Iterator[ast.AST]:
    """What of a function reaches the IR: no assert messages, causes, nested classes."""
    yield node
    for name, value in ast.iter_fields(node):
        left_out = {
            ("FunctionDef", "type_params"),
            ("AsyncFunctionDef", "type_params"),
            ("Assert", "msg"),
            ("Raise", "cause"),
        }
        if (type(node).__name__, name) in left_out:
            continue
        if isinstance(node, ast.NamedExpr) and name == "target":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, (ast.ClassDef, ast.JoinedStr)):
                yield from kept(child)


def place(node: ast.expr | ast.stmt, lines: list[str]) -> Place:
    def column(line: int, col: int) -> int:
        return len(lines[line - 1].encode()[:col].decode())

    end_line, end_col = node.end_lineno or 0, node.end_col_offset or 0
    return node.lineno, column(node.lineno, node.col_offset), end_line, column(end_line, end_col)


def spot(span: Span) -> Place:
    return span.line, span.col, span.end_line, span.end_col


Kinds: TypeAlias = tuple[type[Any], tuple[type[ast.expr | ast.stmt], ...]]
SIMPLE_KINDS: list[Kinds] = [
    (ir.AugAssign, (ast.AugAssign,)),
    (ir.Return, (ast.Return,)),
    (ir.Raise, (ast.Raise,)),
    (ir.Delete, (ast.Delete,)),
    (ir.Assert, (ast.Assert,)),
    (ir.Eval, (ast.Expr,)),
    (ir.Jump, (ast.Break, ast.Continue)),
    (ir.Scope, (ast.Global, ast.Nonlocal)),
]
COMPOUND_KINDS: list[Kinds] = [
    (ir.If, (ast.If,)),
    (ir.For, (ast.For, ast.AsyncFor)),
    (ir.While, (ast.While,)),
    (ir.With, (ast.With, ast.AsyncWith)),
    (ir.Try, (ast.Try, getattr(ast, "TryStar", ast.Try))),
    (ir.Match, (ast.Match,)),
    (ir.FunctionDef, (ast.FunctionDef, ast.AsyncFunctionDef)),
]
EXPRESSION_KINDS: list[Kinds] = [
    (ir.Call, (ast.Call,)),
    (ir.Attr, (ast.Attribute,)),
    (ir.Name, (ast.Name,)),
    (ir.Index, (ast.Subscript,)),
    (ir.Binary, (ast.BinOp,)),
    (ir.Unary, (ast.UnaryOp,)),
    (ir.Lambda, (ast.Lambda,)),
    (ir.Bind, (ast.NamedExpr,)),
    (ir.Yield, (ast.Yield, ast.YieldFrom)),
    (ir.Await, (ast.Await,)),
    (ir.Choice, (ast.IfExp,)),
    (ir.DictDisplay, (ast.Dict,)),
]


def check_function(function: ir.Function, node: ast.AST, lines: list[str]) -> None:
    lowered = list(everything(function, in_fstrings=False))
    expected = list(kept(node))[1:]
    for ours, theirs in [*EXPRESSION_KINDS, *SIMPLE_KINDS]:
        mine = {spot(x.span) for x in lowered if isinstance(x, ours) and isinstance(x.span, Span)}
        want = {place(x, lines) for x in expected if isinstance(x, theirs)}
        if ours is ir.Return:
            want |= {place(x.body, lines) for x in expected if isinstance(x, ast.Lambda)}
        assert mine == want, (function.qualname, ours)
    for ours, kinds in COMPOUND_KINDS:
        starts = Counter(x.span.line for x in lowered if isinstance(x, ours))
        assert starts == Counter(x.lineno for x in expected if isinstance(x, kinds)), (
            function.qualname,
            ours,
        )
        for x in lowered:
            if isinstance(x, ours):
                assert lines[x.span.end_line - 1][: x.span.end_col].endswith(":")


def code_objects(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from code_objects(constant)


def check_signature(function: ir.Function, codes: dict[tuple[str, int], types.CodeType]) -> None:
    first = min([function.span.line, *(decorator.span.line for decorator in function.decorators)])
    code = codes.get((function.name, first))
    if code is None:  # optimized away: a function under ``if 0:``
        return
    count = code.co_argcount + code.co_kwonlyargcount
    plain = [param.name for param in function.params if param.kind in ("positional", "keyword")]
    names = list(code.co_varnames[:count])
    assert [unmangled(n) for n in names] == plain, function.qualname
    generator = bool(code.co_flags & 0x20) or bool(code.co_flags & 0x200)
    assert function.is_generator == generator, function.qualname
    assert function.is_async == bool(code.co_flags & (0x80 | 0x200)), function.qualname


def unmangled(name: str) -> str:
    return re.sub(r"^_[A-Za-z0-9]\w*?(__\w*[^_]_?)$", r"\1", name)


def stdlib_sources() -> list[Path]:
    root = Path(sysconfig.get_paths()["stdlib"])
    found = sorted(p for p in root.rglob("*.py") if "site-packages" not in p.parts)
    random.Random(20).shuffle(found)  # noqa: S311 -- any order will do
    # These are about syntax itself, so they go first.
    first = [
        "test_patma.py",
        "test_grammar.py",
        "test_generators.py",
        "test_except_star.py",
        "test_fstring.py",
    ]
    return sorted(found, key=lambda p: p.name not in first)


def check_source(text: str, path: str) -> int:
    """Lowers all of one file, and compares; the number of functions."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    module = index_module(text, path, "m", is_package=False)
    module.load_body()
    tree = ast.parse("\n".join(lines))
    nodes = {
        place(node, lines)[:2]: node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    codes = {
        (code.co_name, code.co_firstlineno): code
        for code in code_objects(compile(tree, path, "exec", dont_inherit=True))
    }
    count = 0
    for decl in declared(module):
        count += 1
        function = decl.load()
        assert function.span == decl.span
        assert function.qualname == decl.qualname
        check_function(function, nodes[spot(decl.span)[:2]], lines)
        for inner in everything(function):
            if isinstance(inner, ir.Function) and inner.name != "<lambda>":
                check_signature(inner, codes)
        read = {x.id for x in everything(function) if isinstance(x, ir.Name)}
        read |= {x.name for x in everything(function) if isinstance(x, ir.Attr)}
        assert read <= decl.names
    for cls in module.classes.values():
        cls.load_body()
    return count


@pytest.mark.slow
def test_the_standard_library_is_lowered_as_python_reads_it() -> None:
    """Places and kinds of all calls, names, statements ..., of some files."""
    functions = files = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in stdlib_sources():
            if files == FILES:
                break
            try:
                text = path.read_text(encoding="utf-8")
                compile(text, str(path), "exec", dont_inherit=True)
            except (SyntaxError, ValueError):  # lib2to3's and the parser's own test data
                continue
            functions += check_source(text, str(path))
            files += 1
    assert files == FILES
    assert functions > 100


SNIPPETS = [
    "x = côté.wait_event(é, 'ü')  # ñ: x",
    "with s as a, t:\n{i}y = a.b[1:n, ::2]\n{i}del y",
    "if a < b < c:\n{i}return x\nelif (d :=\n  f(1)):\n{i}pass\nelse:\n{i}yield",
    "for i, (j, *k) in g(*args, **kw): print(i, file=f); break\nelse:\n{i}x += 1",
    "try:\n{i}a()\nexcept (E, F) as e:\n{i}raise G from e\nfinally:\n{i}b()",
    "@deco.rate(1)\nasync def f(a, /, b: T = 1, *, c=(2)) -> 'x:y':\n{i}await a\n{i}return lambda q=1: [*q]",
    "match x:\n{i}case K(a, b=[1, *r]) | {'k': r} if a: pass\n{i}case _: pass",
    "s = '''one\n  two\n''' 'three'",
    "t = {k: v for k, v in d.items() if k if v for w in v}, {**a, 'b': not -1}, {*a}",
    "x: int\ny: 'T' = (\n  1 + # plus\n  2)",
    "try :\n{i}x = f'{a !r:>{w}}'; f(b)\nexcept E :\n{i}c()\nexcept F as e :\n{i}g ( d )",
    "global a, b; nonlocal_ = f\"{a.b!r:>{w}}\" 'c'",
]


@st.composite
def functions(draw: st.DrawFn) -> str:
    indent = draw(st.sampled_from(["  ", "    ", "\t"]))
    chosen = draw(st.lists(st.sampled_from(SNIPPETS), min_size=1, max_size=5))
    # A string over several lines must not be indented, or its text changes.
    body = [
        line if "'''" in snippet and number else indent + line
        for snippet in chosen
        for number, line in enumerate(snippet.replace("{i}", indent).split("\n"))
    ]
    return "\n".join(["async def run(self, x=(1,), *rest):  # a: b", *body, ""])


def shape(node: object) -> object:
    """A lowered object without places and qualified names."""
    if isinstance(node, tuple):
        return tuple(shape(item) for item in node)
    if isinstance(node, Span):
        return None
    if dataclasses.is_dataclass(node):
        fields = [f.name for f in dataclasses.fields(node) if f.name != "qualname"]
        return type(node).__name__, *(shape(getattr(node, name)) for name in fields)
    return node


def lowered(text: str) -> ir.Function:
    return next(declared(index_module(text, "a.py", "m", is_package=False))).load()


@settings(max_examples=60, deadline=None)
@given(functions(), st.integers(0, 5))
def test_lines_before_move_places_and_nothing_else(text: str, count: int) -> None:
    before, after = lowered(text), lowered("# é\n" * count + text)
    moved = [dataclasses.replace(s, line=s.line + count, end_line=s.end_line + count) for s in spans(before)]
    assert moved == spans(after)
    assert shape(before) == shape(after)


@settings(max_examples=60, deadline=None)
@given(functions(), st.sampled_from(["\r\n", "\r"]))
def test_line_ends_change_nothing(text: str, newline: str) -> None:
    assert lowered(text) == lowered(text.replace("\n", newline))


@settings(max_examples=60, deadline=None)
@given(functions(), st.sampled_from([" ", "    ", "\t"]))
def test_a_method_is_lowered_like_a_function(text: str, indent: str) -> None:
    inside, quoted = [], False
    for line in text.split("\n"):
        inside.append(line if quoted or not line else indent + line)
        quoted ^= line.count("'''") % 2 == 1
    method = lowered("class A:\n" + "\n".join(inside))
    assert method.qualname == "A.run"
    assert shape(method) == shape(lowered(text))


@settings(max_examples=60, deadline=None)
@given(functions())
def test_places_are_those_of_the_ast(text: str) -> None:
    node = ast.parse(text).body[0]
    check_function(lowered(text), node, text.split("\n"))


def spans(node: object) -> list[Span]:
    return [x.span for x in everything(node) if isinstance(getattr(x, "span", None), Span)]  # type: ignore[attr-defined]
