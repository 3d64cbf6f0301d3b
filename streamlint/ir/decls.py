"""Functions, classes and modules: indexed at once, lowered on demand."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Protocol, TypeVar

from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streamlint.ir.nodes import Expr, Import, Stmt
    from streamlint.source import Span


_T_co = TypeVar("_T_co", covariant=True)


@frozen()
class Param:
    """``kind`` is ``"positional"``, ``"keyword"`` (keyword-only), ``"*"`` or ``"**"``."""

    name: str
    kind: str = "positional"
    default: Expr | None = None
    annotation: Expr | None = None


@frozen()
class Function:
    """A lowered function. ``span`` covers the ``def`` line only."""

    name: str
    qualname: str
    module: str
    span: Span
    params: tuple[Param, ...]
    body: tuple[Stmt, ...]
    decorators: tuple[Expr, ...] = ()
    is_generator: bool = False
    is_async: bool = False
    returns: Expr | None = None
    """What its annotation says of the result."""


class Body(Protocol[_T_co]):
    """The code of a function, or the statements of a class or module, lowered when it is first asked for.

    All that is known without it is part of the module's outline (``run.outlines``).
    """

    @property
    def digest(self) -> bytes:
        """Tells it, and the lines on which it stands, from any other of its module."""

    def __call__(self) -> _T_co:
        """Raises ``LoweringError``."""

    def note(self) -> None:
        """Says that it was looked at: what rests on it is to be found anew when it has changed."""


@frozen(eq=False)
class FunctionDecl:
    """A function that is known but not yet lowered.

    ``names`` are all identifiers and attribute names in its text: enough to decide, without
    lowering, whether it can touch a stream or an attribute. ``load`` lowers it (and caches);
    it raises ``LoweringError``. Fields are the same for any text that means the same to other code; who asks
    for ``names``, ``variables`` or ``lines`` has looked at the text itself, and that is noted.
    """

    name: str
    qualname: str
    module: str
    span: Span
    end_line: int
    decorators: tuple[str, ...]
    """Dotted text of each decorator, calls without arguments: ``"torch.no_grad"``."""
    used: frozenset[str]
    """Its ``names`` without its ``variables``: what may be something of other code, too."""
    members: frozenset[str]
    """Those of its names that may be a member of an object: behind a dot, or in a string for ``getattr``. A
    method ``next`` is not what ``next(self.loader)`` calls."""
    called: frozenset[str]
    """Last names of what it calls: ``torch.cuda.stream(s)`` calls a ``stream``, ``self.stream.f()`` none."""
    own: frozenset[str]
    """Attributes of its first parameter: of the object, if it is a method."""
    globals: frozenset[str]
    """Variables of the module that it sets: names that its text declares ``global`` and assigns."""
    given: tuple[tuple[str, frozenset[str]], ...]
    """Attributes and variables of the module that it sets or appends to, with the last names of what they
    get, ``"Stream()"`` where that is called; what it returns stands under ``""``."""
    entered: frozenset[str]
    """Last names of what its ``with`` statements enter without a call: not its own variables, which show what
    they are."""
    keywords: frozenset[str]
    """Names that it has for nothing but keywords of calls, and such variables: ``launch(x, stream=s)``."""
    stored: frozenset[str]
    """Attributes that it assigns, of whatever object."""
    packages: frozenset[str]
    """The packages that it imports itself ..."""
    imports: frozenset[tuple[str, str | None]]
    """... and the modules, with what it takes of each: None for the module."""
    text_names: frozenset[str] = field(repr=False)
    """``names``, for who may ask without saying so."""
    text_variables: frozenset[str] = field(repr=False)
    load: Body[Function] = field(repr=False)

    @property
    def names(self) -> frozenset[str]:
        """All identifiers and attribute names in its text."""
        self.load.note()
        return self.text_names

    @property
    def variables(self) -> frozenset[str]:
        """Names that it has for nothing but its parameters and variables.

        ``stream`` of ``def feed(stream)``, not where it calls ``torch.cuda.stream`` too.
        """
        self.load.note()
        return self.text_variables

    @property
    def lines(self) -> int:
        self.load.note()
        return self.end_line - self.span.line + 1

    def beginning(self) -> tuple[Function, str]:
        """The function; of one too large to be read whole, what comes first, and why not all of it."""
        try:
            return self.load(), ""
        except TooLarge as error:
            return error.beginning(), error.message


def code_of(function: Function | FunctionDecl) -> Function | None:
    """A function's code; None if it cannot be read, which is reported where it is run."""
    if isinstance(function, Function):
        return function
    try:
        return function.load()
    except LoweringError:
        return None


@frozen(eq=False)
class ClassDecl:
    """A class: its methods by name and its class-level statements (assignments, declarations),
    lowered on demand; those that cannot be are ``Unread``.

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
    unread: tuple[str, ...]
    """Why some of its statements cannot be read."""
    load_body: Body[tuple[Stmt, ...]] = field(repr=False)


@frozen(eq=False)
class Module:
    """One source file. ``name`` is its dotted import name, ``path`` relative to the project root with ``/``.

    ``imports`` holds imports found anywhere at module level (also under ``if`` and ``try``);
    ``assigned`` the names bound by other module-level statements. ``load_body`` gives the
    module-level statements without functions, classes and imports, in order; those that cannot be
    lowered are ``Unread``.
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
    body_given: tuple[tuple[str, frozenset[str]], ...]
    """Variables that the module-level statements set, as in ``FunctionDecl.given``."""
    load_body: Body[tuple[Stmt, ...]] = field(repr=False)
    outside: bytes = field(repr=False)
    """A digest of its text without its functions."""
    roots: frozenset[str] = field(init=False, repr=False)
    """The packages that the module imports, and those that its functions do: ``import cupy as cp`` where
    that is first needed."""

    def __post_init__(self) -> None:
        own = frozenset(imported.module.partition(".")[0] for imported in self.imports)
        object.__setattr__(self, "roots", own.union(*(decl.packages for decl in all_functions(self))))


def all_classes(module: Module) -> Iterator[ClassDecl]:
    """The classes of a module, with those inside of others."""
    waiting = list(module.classes.values())
    while waiting:
        cls = waiting.pop(0)
        yield cls
        waiting.extend(cls.inner.values())


def all_functions(module: Module) -> Iterator[FunctionDecl]:
    """The functions and methods of a module."""
    yield from module.functions.values()
    for cls in all_classes(module):
        yield from cls.methods.values()


class LoweringError(Exception):
    """Source that cannot be lowered; ``line`` counts from 1."""

    def __init__(self, path: str, line: int, message: str) -> None:
        super().__init__(f"{path}:{line}: {message}")
        self.path = path
        self.line = line
        self.message = message


class TooLarge(LoweringError):
    """A function that is too large to be lowered whole; ``beginning`` lowers what comes first."""

    def __init__(self, path: str, line: int, message: str, beginning: Callable[[], Function]) -> None:
        super().__init__(path, line, message)
        self.beginning = beginning
