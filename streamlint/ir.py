"""The program as the interpreter sees it: small, frozen, free of any parser.

A *lowering* turns source text into this; nothing after it knows which parser was used. Modules are
indexed first (``Module`` with its ``FunctionDecl``/``ClassDecl`` entries); bodies are lowered on
demand through ``FunctionDecl.load``, because most functions of a real tree are never needed.

Expressions that cannot matter to ordering are lowered to ``Opaque`` with their operands, so that
reads inside them are not lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

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
    """One comparison; chains are lowered to ``Boolean("and", ...)``. ``op``: ``"=="``, ``"is not"``, ``"in"`` ..."""

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
    """``target: annotation`` with no value (matters for dataclasses)."""

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
    """One ``case``: ``pattern`` is the matched value if it is a plain one, ``None`` for a wildcard or a capture."""

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
)

# ----------------------------------------------------------------------------- definitions


@dataclass(frozen=True, slots=True)
class Param:
    """``kind`` is ``"positional"``, ``"keyword"`` (keyword-only), ``"*"`` or ``"**"``."""

    name: str
    kind: str = "positional"
    default: Expr | None = None
    annotation: Expr | None = None


@dataclass(frozen=True, slots=True)
class Function:
    """A lowered function. ``span`` covers the ``def`` line only. Compared by identity of ``span`` and name."""

    name: str
    qualname: str
    module: str
    span: Span
    params: tuple[Param, ...]
    body: tuple[Stmt, ...]
    decorators: tuple[Expr, ...] = ()
    is_generator: bool = False
    is_async: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class FunctionDecl:
    """A function that is known but not yet lowered.

    ``names`` are all identifiers and attribute names in its text: enough to decide, without
    lowering, whether it can touch a stream or an attribute. ``load`` lowers it (and caches);
    it raises ``LoweringError``.
    """

    name: str
    qualname: str
    module: str
    span: Span
    end_line: int
    decorators: tuple[str, ...]
    """Dotted text of each decorator, calls without arguments: ``"torch.no_grad"``."""
    names: frozenset[str]
    load: Callable[[], Function] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class ClassDecl:
    """A class: its methods by name and its class-level statements (assignments, declarations), lowered on demand.

    Of several methods of one name (property setters, overloads) the dict keeps the last; setters
    stand in ``setters``.
    """

    name: str
    qualname: str
    module: str
    span: Span
    bases: tuple[str, ...]
    """Dotted text of each base; a base that is no dotted name is ``"?"``."""
    decorators: tuple[str, ...]
    methods: dict[str, FunctionDecl]
    setters: dict[str, FunctionDecl]
    inner: dict[str, ClassDecl]
    load_body: Callable[[], tuple[Stmt, ...]] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """One source file. ``name`` is its dotted import name, ``path`` relative to the project root with ``/``.

    ``imports`` holds imports found anywhere at module level (also under ``if`` and ``try``);
    ``assigned`` the names bound by other module-level statements. ``load_body`` gives the
    module-level statements without functions, classes and imports, in order.
    """

    name: str
    path: str
    is_package: bool
    imports: tuple[Import, ...]
    functions: dict[str, FunctionDecl]
    classes: dict[str, ClassDecl]
    assigned: frozenset[str]
    body_names: frozenset[str]
    """Identifiers and attribute names in the module-level statements."""
    load_body: Callable[[], tuple[Stmt, ...]] = field(repr=False)


class LoweringError(Exception):
    """Source that cannot be lowered; ``line`` counts from 1."""

    def __init__(self, path: str, line: int, message: str) -> None:
        super().__init__(f"{path}:{line}: {message}")
        self.path = path
        self.line = line
        self.message = message
