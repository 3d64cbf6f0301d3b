"""Expressions and statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from streamlint.frozen import frozen

if TYPE_CHECKING:
    from streamlint.ir.decls import ClassDecl, Function
    from streamlint.source import Span

# ----------------------------------------------------------------------------- expressions


@frozen()
class Name:
    span: Span
    id: str


@frozen()
class Attr:
    """``value.name``"""

    span: Span
    value: Expr
    name: str


@frozen()
class Arg:
    """One argument of a call; ``star`` is ``""``, ``"*"`` or ``"**"``."""

    value: Expr
    keyword: str | None = None
    star: str = ""


@frozen()
class Call:
    span: Span
    func: Expr
    args: tuple[Arg, ...]


@frozen()
class Index:
    """``value[index]``; ``x[a, b]`` has a ``Seq`` as index."""

    span: Span
    value: Expr
    index: Expr


@frozen()
class Slice:
    span: Span
    lo: Expr | None
    hi: Expr | None
    step: Expr | None


@frozen()
class Const:
    """A literal: ``int``, ``float``, ``str``, ``bytes``, ``bool``, ``None`` or ``...``."""

    span: Span
    value: int | float | complex | str | bytes | bool | type(Ellipsis) | None  # type: ignore[valid-type]


@frozen()
class Seq:
    """``kind`` is ``"tuple"``, ``"list"`` or ``"set"``."""

    span: Span
    kind: str
    items: tuple[Expr, ...]


@frozen()
class DictDisplay:
    """``items`` are key/value pairs; a ``None`` key is ``**value``."""

    span: Span
    items: tuple[tuple[Expr | None, Expr], ...]


@frozen()
class Star:
    """``*value`` inside a display or an assignment target."""

    span: Span
    value: Expr


@frozen()
class Unary:
    """``op`` is ``"not"``, ``"-"``, ``"+"`` or ``"~"``."""

    span: Span
    op: str
    operand: Expr


@frozen()
class Binary:
    """``op`` as written, ``"+"``, ``"%"``, ``"@"`` ..."""

    span: Span
    op: str
    left: Expr
    right: Expr


@frozen()
class Compare:
    """One comparison; ``op`` is ``"=="``, ``"is not"``, ``"in"`` ... Chains: ``Boolean("and", ...)``."""

    span: Span
    op: str
    left: Expr
    right: Expr


@frozen()
class Boolean:
    """``op`` is ``"and"`` or ``"or"``; at least two operands."""

    span: Span
    op: str
    operands: tuple[Expr, ...]


@frozen()
class Choice:
    """``body if test else orelse``"""

    span: Span
    test: Expr
    body: Expr
    orelse: Expr


@frozen()
class Generator:
    """One ``for target in iter if tests`` clause of a comprehension."""

    target: Expr
    iter: Expr
    tests: tuple[Expr, ...]


@frozen()
class Comprehension:
    """``kind`` is ``"list"``, ``"set"``, ``"dict"`` or ``"generator"``; ``key`` only for dicts."""

    span: Span
    kind: str
    element: Expr
    generators: tuple[Generator, ...]
    key: Expr | None = None


@frozen()
class Lambda:
    span: Span
    function: Function


@frozen()
class Bind:
    """``(name := value)``"""

    span: Span
    name: str
    value: Expr


@frozen()
class Await:
    span: Span
    value: Expr


@frozen()
class Yield:
    """``yield value`` (``delegate`` for ``yield from``)."""

    span: Span
    value: Expr | None
    delegate: bool = False


@frozen()
class Opaque:
    """Anything else (f-strings with values, ...); the operands are evaluated in order."""

    span: Span
    why: str
    operands: tuple[Expr, ...] = ()
    texts: tuple[str, ...] = ()
    """Of an f-string without formats, ``f"copy_{dtype}_v{n}"``: what stands before, between and after."""


Expr: TypeAlias = (
    Name
    | Attr
    | Call
    | Index
    | Slice
    | Const
    | Seq
    | DictDisplay
    | Star
    | Unary
    | Binary
    | Compare
    | Boolean
    | Choice
    | Comprehension
    | Lambda
    | Bind
    | Await
    | Yield
    | Opaque
)

# ----------------------------------------------------------------------------- statements
# ``span`` of a compound statement covers its header only (``if test:``), so that a place shown to
# the user is one line and not a whole block.


@frozen()
class Assign:
    """``a = b = value``; annotated assignments with a value too."""

    span: Span
    targets: tuple[Expr, ...]
    value: Expr


@frozen()
class AugAssign:
    """``target op= value``; ``op`` without the ``=``."""

    span: Span
    op: str
    target: Expr
    value: Expr


@frozen()
class Declare:
    """``target: annotation``; the value that stands with it was assigned before."""

    span: Span
    target: Expr
    annotation: Expr


@frozen()
class Eval:
    span: Span
    value: Expr


@frozen()
class WithItem:
    context: Expr
    target: Expr | None


@frozen()
class With:
    span: Span
    items: tuple[WithItem, ...]
    body: tuple[Stmt, ...]
    is_async: bool = False


@frozen()
class If:
    span: Span
    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


@frozen()
class For:
    span: Span
    target: Expr
    iter: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]
    is_async: bool = False


@frozen()
class While:
    span: Span
    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


@frozen()
class Handler:
    type: Expr | None
    name: str | None
    body: tuple[Stmt, ...]


@frozen()
class Try:
    span: Span
    body: tuple[Stmt, ...]
    handlers: tuple[Handler, ...]
    orelse: tuple[Stmt, ...]
    final: tuple[Stmt, ...]


@frozen()
class Case:
    """One ``case``: ``pattern`` is the matched value if it is plain, ``None`` for a wildcard or a capture."""

    pattern: Expr | None
    captures: tuple[str, ...]
    guard: Expr | None
    body: tuple[Stmt, ...]


@frozen()
class Match:
    span: Span
    subject: Expr
    cases: tuple[Case, ...]


@frozen()
class Return:
    span: Span
    value: Expr | None


@frozen()
class Raise:
    span: Span
    value: Expr | None


@frozen()
class Delete:
    span: Span
    targets: tuple[Expr, ...]


@frozen()
class Jump:
    """``kind`` is ``"break"`` or ``"continue"``."""

    span: Span
    kind: str


@frozen()
class Assert:
    span: Span
    test: Expr


@frozen()
class Scope:
    """``global``/``nonlocal`` names; ``kind`` says which."""

    span: Span
    kind: str
    names: tuple[str, ...]


@frozen()
class Import:
    """One bound name: ``import a.b as c`` -> module "a.b", attribute None, name "c".

    ``import a.b`` binds "a" (module "a"); ``from m import x as y`` -> module "m", attribute "x",
    name "y"; relative modules are already made absolute; ``from m import *`` has attribute "*".
    """

    span: Span
    name: str
    module: str
    attribute: str | None


@frozen()
class FunctionDef:
    """A function defined by a statement inside a function body or at the top of a module."""

    span: Span
    function: Function


@frozen()
class ClassDef:
    """A class defined inside a function body."""

    span: Span
    cls: ClassDecl


@frozen()
class Unread:
    """Statements of a module or class that were not read: they are too large, or nested too deeply."""

    span: Span
    why: str


Stmt: TypeAlias = (
    Assign
    | AugAssign
    | Declare
    | Eval
    | With
    | If
    | For
    | While
    | Try
    | Match
    | Return
    | Raise
    | Delete
    | Jump
    | Assert
    | Scope
    | Import
    | FunctionDef
    | ClassDef
    | Unread
)
