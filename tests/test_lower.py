"""What each construct of Python becomes in the IR."""

from __future__ import annotations

import gc
import sys

import pytest

from streamlint import ir
from streamlint.lower import index_module
from streamlint.prefilter import may_touch_gpu
from streamlint.source import Span


def module(text: str, name: str = "pkg.sub.mod", *, is_package: bool = False) -> ir.Module:
    return index_module(text, "src/mod.py", name, is_package)


def body(text: str) -> tuple[ir.Stmt, ...]:
    """The statements of a function body, given unindented."""
    lines = "".join(f"    {line}\n" for line in text.split("\n"))
    return module(f"async def f():\n{lines}").functions["f"].load().body


def statement(text: str) -> ir.Stmt:
    (only,) = body(text)
    return only


def expression(text: str) -> ir.Expr:
    found = statement(f"({text})")
    assert isinstance(found, ir.Eval)
    return found.value


def show(node: object) -> str:  # noqa: C901, PLR0911, PLR0912 -- flat dispatch
    """Expressions in a small notation without places."""
    match node:
        case ir.Name(id=name):
            return name
        case ir.Const(value=value):
            return repr(value)
        case ir.Attr(value=value, name=name):
            return f"{show(value)}.{name}"
        case ir.Call(func=func, args=args):
            inner = ", ".join(f"{a.star}{a.keyword + '=' if a.keyword else ''}{show(a.value)}" for a in args)
            return f"{show(func)}({inner})"
        case ir.Index(value=value, index=index):
            return f"{show(value)}[{show(index)}]"
        case ir.Slice(lo=lo, hi=hi, step=step):
            return f"<{show(lo)}:{show(hi)}:{show(step)}>"
        case ir.Seq(kind=kind, items=items):
            return f"{kind}({', '.join(map(show, items))})"
        case ir.DictDisplay(items=pairs):
            return f"dict({', '.join(f'{show(k)}: {show(v)}' for k, v in pairs)})"
        case ir.Star(value=value):
            return f"*{show(value)}"
        case ir.Unary(op=op, operand=operand):
            return f"({op} {show(operand)})"
        case ir.Binary(op=op, left=left, right=right) | ir.Compare(op=op, left=left, right=right):
            return f"({show(left)} {op} {show(right)})"
        case ir.Boolean(op=op, operands=operands):
            return f"{op}[{', '.join(map(show, operands))}]"
        case ir.Choice(test=test, body=then, orelse=orelse):
            return f"({show(test)} ? {show(then)} : {show(orelse)})"
        case ir.Bind(name=name, value=value):
            return f"({name} := {show(value)})"
        case ir.Await(value=value):
            return f"await({show(value)})"
        case ir.Yield(value=value, delegate=delegate):
            return f"yield{'-from' if delegate else ''}({show(value)})"
        case ir.Opaque(why=why, operands=operands):
            return f"?{why}({', '.join(map(show, operands))})"
        case ir.Comprehension():
            clauses = "".join(
                f" for {show(c.target)} in {show(c.iter)}" + "".join(f" if {show(t)}" for t in c.tests)
                for c in node.generators
            )
            key = "" if node.key is None else f"{show(node.key)}: "
            return f"{node.kind}<{key}{show(node.element)}{clauses}>"
        case None:
            return "-"
        case _:
            raise AssertionError(node)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a < b.c() <= d", "and[(a < b.c()), (b.c() <= d)]"),
        ("a is not b", "(a is not b)"),
        ("a not in b", "(a not in b)"),
        ("a and b and not c or d", "or[and[a, b, (not c)], d]"),
        ("-1 + ~b ** 2", "((- 1) + (~ (b ** 2)))"),
        ("a - b - c", "((a - b) - c)"),
        ("a @ b // c", "((a @ b) // c)"),
        ("x[1:n, ::2]", "x[tuple(<1:n:->, <-:-:2>)]"),
        ("x[a,]", "x[tuple(a)]"),
        ("x[..., None]", "x[tuple(Ellipsis, None)]"),
        ("x[-1]", "x[(- 1)]"),
        ("f(a, *b, c=1, **d)", "f(a, *b, c=1, **d)"),
        ("f(x for x in y)", "f(generator<x for x in y>)"),
        ("{k: v for k, v in d if k if v for w in v}", "dict<k: v for tuple(k, v) in d if k if v for w in v>"),
        ("[i async for i in b]", "list<i for i in b>"),
        ("{1, *a}", "set(1, *a)"),
        ("[*a, b]", "list(*a, b)"),
        ("()", "tuple()"),
        ("{'a': 1, **b}", "dict('a': 1, -: b)"),
        ("'a' \"b\" '''c'''", "'abc'"),
        (r"'a\n' r'\n'", r"'a\n\\n'"),
        ("b'x'", "b'x'"),
        ("0x10", "16"),
        ("1_000", "1000"),
        ("2.5j", "2.5j"),
        ("True", "True"),
        ("...", "Ellipsis"),
        ("f'{a.b!r:>{w}} {c=}'", "?f-string(a.b, w, c)"),
        ("'x' f'{a}' 'y'", "?f-string(a)"),
        ("a if b else c", "(b ? a : c)"),
        ("(n := f(x))", "(n := f(x))"),
        ("await a.b()", "await(a.b())"),
        ("yield", "yield(-)"),
        ("yield a, b", "yield(tuple(a, b))"),
        ("print(x, file=f)", "print(x, file=f)"),
    ],
)
def test_expressions(text: str, expected: str) -> None:
    assert show(expression(text)) == expected


def test_lambda_is_a_function_of_one_return() -> None:
    found = expression("lambda a, *b, c=1: (yield a)")
    assert isinstance(found, ir.Lambda)
    assert found.function.is_generator
    assert [(p.name, p.kind, show(p.default)) for p in found.function.params] == [
        ("a", "positional", "-"),
        ("b", "*", "-"),
        ("c", "keyword", "1"),
    ]
    (returned,) = found.function.body
    assert isinstance(returned, ir.Return)
    assert show(returned.value) == "yield(a)"
    assert found.function.qualname == "f.<locals>.<lambda>"


def test_simple_statements() -> None:
    text = "a = b = c; d += 1; e: int; g: int = 2; del h, (i, j[0]); pass; assert k, l; raise M from n"
    assign, augmented, declare, annotated, said, delete, asserted, raised = body(text)
    assert isinstance(assign, ir.Assign)
    assert [show(t) for t in assign.targets] == ["a", "b"]
    assert isinstance(augmented, ir.AugAssign)
    assert augmented.op == "+"
    assert isinstance(declare, ir.Declare)
    assert (show(declare.target), show(declare.annotation)) == ("e", "int")
    assert isinstance(annotated, ir.Assign)
    assert isinstance(said, ir.Declare)
    assert (show(said.target), show(said.annotation)) == ("g", "int")
    assert isinstance(delete, ir.Delete)
    assert [show(t) for t in delete.targets] == ["h", "i", "j[0]"]
    assert isinstance(asserted, ir.Assert)
    assert isinstance(raised, ir.Raise)
    assert show(raised.value) == "M"


def test_names_of_other_scopes() -> None:
    first, second = body("global a, b\nnonlocal c")
    assert isinstance(first, ir.Scope)
    assert isinstance(second, ir.Scope)
    assert (first.kind, first.names, second.kind, second.names) == ("global", ("a", "b"), "nonlocal", ("c",))


def test_elif_is_an_if_in_the_else() -> None:
    first = statement("if a: x\nelif b: y\nelse: z")
    assert isinstance(first, ir.If)
    (second,) = first.orelse
    assert isinstance(second, ir.If)
    assert show(second.test) == "b"
    (last,) = second.orelse
    assert isinstance(last, ir.Eval)
    assert (second.span.line, second.span.col, second.span.end_col) == (3, 4, 11)


def test_with_and_loops() -> None:
    with_, for_, while_ = body(
        "async with s.use(), t as (a, b): pass\nasync for i in r: break\nelse: c\nwhile d: continue"
    )
    assert isinstance(with_, ir.With)
    assert with_.is_async
    assert [(show(i.context), show(i.target)) for i in with_.items] == [
        ("s.use()", "-"),
        ("t", "tuple(a, b)"),
    ]
    assert isinstance(for_, ir.For)
    assert for_.is_async
    assert [type(s) for s in (*for_.body, *for_.orelse)] == [ir.Jump, ir.Eval]
    assert isinstance(while_, ir.While)
    assert [s.kind for s in while_.body if isinstance(s, ir.Jump)] == ["continue"]


@pytest.mark.parametrize(
    "star", ["", pytest.param("*", marks=pytest.mark.skipif(sys.version_info < (3, 11), reason=""))]
)
def test_try(star: str) -> None:
    found = statement(f"try: a\nexcept{star} (E, F) as e: b\nexcept{star} G : c\nelse: d\nfinally: g")
    assert isinstance(found, ir.Try)
    assert [(show(h.type), h.name) for h in found.handlers] == [("tuple(E, F)", "e"), ("G", None)]
    assert [len(block) for block in (found.body, found.orelse, found.final)] == [1, 1, 1]
    (last,) = found.final
    assert (last.span.line, last.span.col) == (6, 13)


def test_match() -> None:
    found = statement(
        "match x:\n case 1: a\n case m.N as n: b\n case {'k': v, **r} if c: d\n"
        " case K(q, w=[*_, z]) | 2: e\n case y: g"
    )
    assert isinstance(found, ir.Match)
    assert [(show(c.pattern), c.captures, show(c.guard)) for c in found.cases] == [
        ("1", (), "-"),
        ("m.N", ("n",), "-"),
        ("?pattern('k')", ("v", "r"), "c"),
        ("?pattern(K, 2)", ("q", "z"), "-"),
        ("-", ("y",), "-"),
    ]
    assert found.span == Span("src/mod.py", 2, 4, 2, 12)


def test_parameters_decorators_and_flags() -> None:
    text = """
@torch.no_grad()
@deco
def f(a, /, b: "T" = 1, *args, c, d=2, **kw) -> dict[str, int]:  # here: no
    def inner():
        yield 1
    return lambda: (yield)
"""
    decl = module(text).functions["f"]
    function = decl.load()
    assert decl.decorators == ("torch.no_grad", "deco")
    assert [show(d) for d in function.decorators] == ["torch.no_grad()", "deco"]
    assert [(p.name, p.kind) for p in function.params] == [
        *(("a", "positional"), ("b", "positional"), ("args", "*")),
        *(("c", "keyword"), ("d", "keyword"), ("kw", "**")),
    ]
    assert show(function.params[1].annotation) == "'T'"
    assert not function.is_generator
    inner, _ = function.body
    assert isinstance(inner, ir.FunctionDef)
    assert inner.function.is_generator
    assert inner.function.qualname == "f.<locals>.inner"
    assert decl.span == function.span == Span("src/mod.py", 4, 0, 4, 63)
    assert decl.end_line == 7
    assert {"torch", "no_grad", "f", "kw", "inner", "dict"} <= decl.names
    assert "here" not in decl.names
    assert decl.load() is function


def test_names_hold_keywords_and_attributes_asked_for_by_string() -> None:
    names = module("def f(x):\n    getattr(x, 'copy_stream').go(non_blocking=True)\n").functions["f"].names
    assert names == {"f", "x", "getattr", "copy_stream", "go", "non_blocking"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import a.b", ("a", "a", None)),
        ("import a.b as c", ("c", "a.b", None)),
        ("from m.n import x as y", ("y", "m.n", "x")),
        ("from m import *", ("*", "m", "*")),
        ("from . import x", ("x", "pkg.sub", "x")),
        ("from .y import x", ("x", "pkg.sub.y", "x")),
        ("from ... import x", ("x", "x", None)),
        ("from .... import x", ("x", "....", "x")),
    ],
)
def test_imports_in_functions_and_modules_agree(text: str, expected: tuple[str, str, str | None]) -> None:
    inside = statement(text) if "*" not in text else module(f"if 1:\n  {text}").imports[0]
    outside = module(text).imports[0]
    for found in (inside, outside):
        assert isinstance(found, ir.Import)
        assert (found.name, found.module, found.attribute) == expected


def test_what_functions_import_belongs_to_the_packages_of_the_module() -> None:
    text = """
import numpy as np

class Decoder:
    def __init__(self):
        import cupy.cuda as gpu
        def inner():
            from torch import nn
        from . import near
"""
    assert module(text).roots == {"numpy", "cupy", "torch"}


def test_relative_imports_of_a_package_start_at_itself() -> None:
    (found,) = module("from . import x", "a.b", is_package=True).imports
    assert (found.module, found.attribute) == ("a.b", "x")


def test_index_of_a_module() -> None:
    found = module("""
import torch; width = 3
try:
    import cupy as cp
except ImportError:
    cp = None
    def pinned(): return 0
else:
    def late(): pass
if width:
    def pinned(): return 1
else:
    def pinned(): return 2
class A: x = 1; y: int
with open(p) as (f, g): z = [i for i in f if (w := i)]
""")
    assert [i.name for i in found.imports] == ["torch", "cp"]
    assert set(found.functions) == {"pinned", "late"}
    assert found.functions["pinned"].span.line == 11
    assert found.assigned == {"width", "cp", "f", "g", "z", "w"}
    kinds = [type(s) for s in found.load_body()]
    assert kinds == [ir.Assign, ir.Try, ir.If, ir.With]
    tried = found.load_body()[1]
    assert isinstance(tried, ir.Try)
    assert [type(s) for s in tried.body] == [ir.Import]
    assert [type(s) for s in found.classes["A"].load_body()] == [ir.Assign, ir.Declare]


def test_index_of_a_class() -> None:
    cls = module("""
@dataclasses.dataclass(frozen=True)
class Ring(nn.Module, Generic[T], make(), metaclass=M):
    depth: int = 2
    class Slot(Base): pass
    @property
    def stream(self): return self._s
    @stream.setter
    def stream(self, value): self._s = value
    @stream.deleter
    def stream(self): pass
    if CUDA:
        def copy(self):
            class Local:
                size = 1
                def go(self): yield 1
            return Local
    é = "ü"; after = 1
""").classes["Ring"]
    assert cls.bases == ("nn.Module", "Generic", "?")
    assert cls.decorators == ("dataclasses.dataclass",)
    assert set(cls.methods) == {"stream", "copy"}
    assert cls.methods["stream"].span.line == 7
    assert cls.setters["stream"].span.line == 9
    assert cls.inner["Slot"].qualname == "Ring.Slot"
    assert cls.span == Span("src/mod.py", 3, 0, 3, 55)
    first, said, guarded, _, after = cls.load_body()
    assert isinstance(first, ir.Assign)
    assert isinstance(said, ir.Declare)
    assert isinstance(guarded, ir.If)
    assert after.span == Span("src/mod.py", 18, 13, 18, 22)
    local = cls.methods["copy"].load().body[0]
    assert isinstance(local, ir.ClassDef)
    assert local.span == Span("src/mod.py", 14, 12, 14, 24)
    go = local.cls.methods["go"].load()
    assert (go.qualname, go.is_generator, go.span.line) == ("Ring.copy.<locals>.Local.go", True, 16)
    assert [type(s) for s in local.cls.load_body()] == [ir.Assign]


def test_places_count_code_points_and_whole_chains() -> None:
    _, second = body("é = 1\nñ = s.ö().wait_event(\n  'ü', x)")
    assert isinstance(second, ir.Assign)
    call = second.value
    assert isinstance(call, ir.Call)
    assert call.span == Span("src/mod.py", 3, 8, 4, 13)
    assert call.func.span == Span("src/mod.py", 3, 8, 3, 24)
    assert second.span == Span("src/mod.py", 3, 4, 4, 13)


@pytest.mark.parametrize(
    ("text", "line"), [("x = 1\ndef f(:\n", 2), ("x = '\0'\n", 1), ("x = " + "(" * 500 + ")" * 500, 1)]
)
def test_text_that_is_not_python(text: str, line: int) -> None:
    with pytest.raises(ir.LoweringError) as caught:
        module(text)
    assert (caught.value.path, caught.value.line) == ("src/mod.py", line)
    assert gc.isenabled()


LONGEST = 700 if sys.version_info[:2] == (3, 12) else 1000
"""Python 3.12 bounds the depth of calls by way of C, 1,500, whatever the recursion limit is."""


@pytest.mark.parametrize("text", ["x = " + " + ".join(["a"] * LONGEST), "if a: b\n" + "elif a: b\n" * 300])
def test_long_chains_are_module(text: str) -> None:
    limit = sys.getrecursionlimit()
    assert len(body(text.strip())) == 1
    assert sys.getrecursionlimit() == limit


def test_too_deep_a_nest_is_an_error_at_its_line() -> None:
    """What runs a body recurses, and Python's stack has an end."""
    text = "a = 1\ndef f():\n    return x" + ".b()" * 700 + "\n"
    decl = module(text).functions["f"]
    for _ in range(2):
        with pytest.raises(ir.LoweringError, match="nested too deeply") as caught:
            decl.load()
        assert caught.value.line == 2


def test_places_of_equal_values_of_an_fstring_differ() -> None:
    """So two reads of one tensor do: ``print(f"{loss.item()} {loss.item()}")``."""
    found = statement('t = f\'ü{a} {a}{a:{a}}\' f\'{a}\' f"""\n{a}\n é {a}"""')
    assert isinstance(found, ir.Assign)
    assert isinstance(found.value, ir.Opaque)
    places = [(value.span.line, value.span.col) for value in found.value.operands]
    assert places == [(2, 12), (2, 16), (2, 19), (2, 22), (2, 30), (3, 5), (4, 8)]
    assert found.value.texts == ()


def test_texts_of_an_fstring_are_known_without_formats() -> None:
    found = expression("'copy\\x41' f'_{a}_{{}}' 'b'")
    assert isinstance(found, ir.Opaque)
    assert found.texts == ("copyA_", "_{}b")


def test_what_only_python_itself_accepts_is_read() -> None:
    (said,) = body("(b): int")
    assert isinstance(said, ir.Declare)
    assert show(expression("\N{MICRO SIGN}")) == "\N{GREEK SMALL LETTER MU}"
    many = expression(" and ".join(["a"] * 3000))
    assert isinstance(many, ir.Boolean)
    assert len(many.operands) == 3000


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("while (lambda: x)(): pass", 20),
        ("if x[1:] == {1: ':'}  : pass", 23),
        ("with a as b, (c): pass", 17),
        ("for i in a, : pass", 13),
        ("try  : pass\nfinally: pass", 6),
        ("def f(a=lambda: 0, *, b: 'T:U' = {1: 2}) -> T[1:]: pass", 50),
        ("class A(B[1:], metaclass=M): pass", 28),
        ("match x[1:]:\n case _: pass", 12),
    ],
)
def test_a_header_ends_at_its_own_colon(text: str, end: int) -> None:
    assert (statement(text).span.col, statement(text).span.end_col) == (4, end + 4)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"import torch\ns = torch.cuda.Stream()", True),
        (b"x.to(dev, non_blocking=True)  # torch", True),
        (b"cudart.cudaMemcpyAsync(a, b)", True),
        (b"work = dist.all_reduce(t, async_op=True)  # torch", True),
        (b'import cupy, warp as wp\nh = wp.empty(9, device="cpu", pinned=True)', True),
        (b"import cupy\nfrom mpi4py import MPI", True),
        (b"import torch\npage.copy_(x, True)", True),
        (b"import torch\nx = torch.zeros(3)", False),
        (b"import torch\nx = sort(y, True)", False),
        (b"sys.stdout.stream.Stream()", False),
        (b"torch.on_event(3); up_stream = 1", False),
    ],
)
def test_prefilter(data: bytes, expected: bool) -> None:
    assert may_touch_gpu(data) is expected


def test_what_a_module_gives_its_attributes() -> None:
    pool = module(
        "import threading\nclass Pool:\n    def __init__(self, n):\n"
        "        self.done = threading.Event()\n"
        "        self.lanes = [torch.cuda.Stream() for _ in range(n)]\n"
        "    def lane(self):\n        return self.lanes[0]\n",
    )
    methods = pool.classes["Pool"].methods
    assert dict(methods["__init__"].given) == {"done": {"threading.Event()"}, "lanes": {"Stream()"}}
    assert dict(methods["lane"].given) == {"": {"lanes"}}
    assert methods["__init__"].stored == {"done", "lanes"}
    assert not methods["lane"].stored


def test_what_is_only_a_variable_is_told_apart() -> None:
    feed = module(
        "def feed(lane, stream):\n"
        "    global shared\n"
        "    shared = local = free(lane)\n"
        "    with torch.cuda.stream(local):\n"
        "        run(lane=stream)\n"
    )
    assert feed.functions["feed"].variables == {"local"}, "stream is called, lane a keyword, shared global"
    assert feed.functions["feed"].keywords == {"lane"}
    assert module("def feed(stream):\n    stream.x = 1\n").functions["feed"].variables == {"stream"}
