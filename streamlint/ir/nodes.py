"""Expressions and statements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from streamlint.ir.decls import ClassDecl, Function
    from streamlint.source import Span

# ----------------------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class Name:
    span: Span
    id: str


@dataclass(frozen=True, slots=True)
class Attr:
    """``value.name``"""

    span: Span
    value: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Arg:
    """One argument of a call; ``star`` is ``""``, ``"*"`` or ``"**"``."""

    value: Expr
    keyword: str | None = None
    star: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    span: Span
    func: Expr
    args: tuple[Arg, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """``value[index]``; ``x[a, b]`` has a ``Seq`` as index."""

    span: Span
    value: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class Slice:
    span: Span
    lo: Expr | None
    hi: Expr | None
    step: Expr | None


@dataclass(frozen=True, slots=True)
class Const:
    """A literal: ``int``, ``float``, ``str``, ``bytes``, ``bool``, ``None`` or ``...``."""

    span: Span
    value: int | float | complex | str | bytes | bool | type(Ellipsis) | None  # type: ignore[valid-type]


@dataclass(frozen=True, slots=True)
class Seq:
    """``kind`` is ``"tuple"``, ``"list"`` or ``"set"``."""

    span: Span
    kind: str
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class DictDisplay:
    """``items`` are key/value pairs; a ``None`` key is ``**value``."""

    span: Span
    items: tuple[tuple[Expr | None, Expr], ...]


@dataclass(frozen=True, slots=True)
class Star:
    """``*value`` inside a display or an assignment target."""

    span: Span
    value: Expr


@dataclass(frozen=True, slots=True)
class Unary:
    """``op`` is ``"not"``, ``"-"``, ``"+"`` or ``"~"``."""

    span: Span
    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary:
    """``op`` as written, ``"+"``, ``"%"``, ``"@"`` ..."""

    span: Span
    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Compare:
    """One comparison; ``op`` is ``"=="``, ``"is not"``, ``"in"`` ... Chains: ``Boolean("and", ...)``."""

    span: Span
    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Boolean:
    """``op`` is ``"and"`` or ``"or"``; at least two operands."""

    span: Span
    op: str
    operands: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """``body if test else orelse``"""

    span: Span
    test: Expr
    body: Expr
    orelse: Expr


@dataclass(frozen=True, slots=True)
class Generator:
    """One ``for target in iter if tests`` clause of a comprehension."""

    target: Expr
    iter: Expr
    tests: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Comprehension:
    """``kind`` is ``"list"``, ``"set"``, ``"dict"`` or ``"generator"``; ``key`` only for dicts."""

    span: Span
    kind: str
    element: Expr
    generators: tuple[Generator, ...]
    key: Expr | None = None


@dataclass(frozen=True, slots=True)
class Lambda:
    span: Span
    function: Function


@dataclass(frozen=True, slots=True)
class Bind:
    """``(name := value)``"""

    span: Span
    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Await:
    span: Span
    value: Expr


@dataclass(frozen=True, slots=True)
class Yield:
    """``yield value`` (``delegate`` for ``yield from``)."""

    span: Span
    value: Expr | None
    delegate: bool = False


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Assign:
    """``a = b = value``; annotated assignments with a value too."""

    span: Span
    targets: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class AugAssign:
    """``target op= value``; ``op`` without the ``=``."""

    span: Span
    op: str
    target: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class Declare:
    """``target: annotation``; the value that stands with it was assigned before."""

    span: Span
    target: Expr
    annotation: Expr


@dataclass(frozen=True, slots=True)
class Eval:
    span: Span
    value: Expr


@dataclass(frozen=True, slots=True)
class WithItem:
    context: Expr
    target: Expr | None


@dataclass(frozen=True, slots=True)
class With:
    span: Span
    items: tuple[WithItem, ...]
    body: tuple[Stmt, ...]
    is_async: bool = False


@dataclass(frozen=True, slots=True)
class If:
    span: Span
    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class For:
    span: Span
    target: Expr
    iter: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]
    is_async: bool = False


@dataclass(frozen=True, slots=True)
class While:
    span: Span
    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Handler:
    type: Expr | None
    name: str | None
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Try:
    span: Span
    body: tuple[Stmt, ...]
    handlers: tuple[Handler, ...]
    orelse: tuple[Stmt, ...]
    final: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One ``case``: ``pattern`` is the matched value if it is plain, ``None`` for a wildcard or a capture."""

    pattern: Expr | None
    captures: tuple[str, ...]
    guard: Expr | None
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Match:
    span: Span
    subject: Expr
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class Return:
    span: Span
    value: Expr | None


@dataclass(frozen=True, slots=True)
class Raise:
    span: Span
    value: Expr | None


@dataclass(frozen=True, slots=True)
class Delete:
    span: Span
    targets: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Jump:
    """``kind`` is ``"break"`` or ``"continue"``."""

    span: Span
    kind: str


@dataclass(frozen=True, slots=True)
class Assert:
    span: Span
    test: Expr


@dataclass(frozen=True, slots=True)
class Scope:
    """``global``/``nonlocal`` names; ``kind`` says which."""

    span: Span
    kind: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Import:
    """One bound name: ``import a.b as c`` -> module "a.b", attribute None, name "c".

    ``import a.b`` binds "a" (module "a"); ``from m import x as y`` -> module "m", attribute "x",
    name "y"; relative modules are already made absolute; ``from m import *`` has attribute "*".
    """

    span: Span
    name: str
    module: str
    attribute: str | None


@dataclass(frozen=True, slots=True)
class FunctionDef:
    """A function defined by a statement inside a function body or at the top of a module."""

    span: Span
    function: Function


@dataclass(frozen=True, slots=True)
class ClassDef:
    """A class defined inside a function body."""

    span: Span
    cls: ClassDecl


@dataclass(frozen=True, slots=True)
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
