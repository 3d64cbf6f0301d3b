"""Walks over ``ast`` trees that the index needs: names, depth, declarations and bound names."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from streamlint.ir import FILLS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
IMPORTS = (ast.Import, ast.ImportFrom)
TRIES: tuple[type[ast.Try], ...] = (ast.Try, getattr(ast, "TryStar", ast.Try))
"""Python 3.10 has no ``except*``."""


class Words(NamedTuple):
    """What the index wants to know of a tree."""

    names: frozenset[str]
    """All identifiers, and ``copy_(True)`` for a method given a flag by its place, ``x.copy_(y, True)``."""
    members: frozenset[str]
    """Those behind a dot, and strings that are identifiers."""
    called: frozenset[str]
    """Last names of what is called."""
    own: frozenset[str]
    """Attributes of the first parameter of a function."""
    globals: frozenset[str]
    """Names declared ``global`` and assigned."""
    depth: int
    """The number of levels."""
    given: tuple[tuple[str, frozenset[str]], ...] = ()
    """Attributes that are assigned or appended to, and variables declared ``global``, with the last names of
    what is called or named for their value; what is returned stands under ``""``."""
    entered: frozenset[str] = frozenset()
    """Last names of what ``with`` enters without a call: ``with self.lane:``."""
    variables: frozenset[str] = frozenset()
    """Names that stand for nothing but parameters and variables that are set here ..."""
    keywords: frozenset[str] = frozenset()
    """... and those that stand for nothing else but keywords of calls."""
    stored: frozenset[str] = frozenset()
    """Attributes that are assigned, of whatever."""
    packages: frozenset[str] = frozenset()
    """The packages that it imports."""
    imported: frozenset[tuple[int, str, str | None]] = frozenset()
    """What it imports: the dots before a module, the module, and what is taken of it."""


def scan(root: ast.AST) -> Words:
    """All identifiers in a tree, and the number of its levels.

    Attribute, keyword and imported names count, and so do strings that are identifiers:
    ``getattr(self, "copy_stream")`` touches ``copy_stream``. Goes level by level, so that deep
    trees need no recursion.
    """
    words: set[str] = set()
    used: set[str] = set()
    keywords: set[str] = set()
    names: list[ast.Name] = []
    attributes: list[ast.Attribute] = []
    constants: list[ast.Constant] = []
    others: list[ast.AST] = []
    depth = 0
    level: list[ast.AST] = [root]
    while level:
        depth += 1
        below: list[ast.AST] = []
        for node in level:
            # Three nodes of four are one of these.
            if type(node) is ast.Name:
                names.append(node)
            elif type(node) is ast.Attribute:
                attributes.append(node)
                below.append(node.value)
            elif type(node) is ast.Constant:
                constants.append(node)
            else:
                others.append(node)
                here = used if type(node) is ast.arg else keywords if type(node) is ast.keyword else words
                _gather(node, here, words, below)
        level = below
    noted = [node for node in others if type(node) in _NOTED]
    members = {node.attr for node in attributes}
    members.update(node.value for node in constants if type(node.value) is str)
    words |= members
    words.update(node.kind for node in constants if node.kind)
    used.update(node.id for node in names)
    declared = {name for node in noted if isinstance(node, ast.Global) for name in node.names}
    stored = frozenset(node.id for node in names if type(node.ctx) is ast.Store)
    variables = stored.union(node.arg for node in others if type(node) is ast.arg) - declared
    return Words(
        frozenset(_identifiers(words | used | keywords)).union(_flagged(noted)),
        frozenset(_identifiers(members)),
        frozenset(_called_by(noted)),
        frozenset(_own(attributes, noted, root)),
        frozenset(declared.intersection(stored)),
        depth,
        tuple(pair for node in noted for pair in _given(node, declared, variables)) if depth < _DEEP else (),
        _entered_by(noted).difference(stored),
        variables - words - keywords,
        frozenset(keywords - words - (used - variables)),
        frozenset(node.attr for node in attributes if type(node.ctx) is ast.Store),
        frozenset(module.partition(".")[0] for level, module, _ in _imported(noted) if not level),
        frozenset(_imported(noted)),
    )


def _imported(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str, str | None]]:
    """``cupy`` of ``import cupy as cp``, also where a function does so."""
    for node in nodes:
        match node:
            case ast.Import(names):
                yield from ((0, alias.name, None) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                yield from ((level, module or "", alias.name) for alias in names)
            case _:
                pass


def _called_by(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """``wait_stream`` of ``torch.cuda.current_stream().wait_stream(side)``, ``f`` of ``f[grid](x)``.

    And of ``getattr(lane, "wait_stream")(side)``.
    """
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr=name)):
                yield name
            case ast.Call(
                func=ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str() as name)])
            ):
                yield name
            case ast.Call(func=func):
                yield _last_name(func)
            case _:
                pass


def _flagged(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr=name), args=[_, *_, ast.Constant(value=True)]):
                yield f"{name}(True)"
            case _:
                pass


def _gather(node: ast.AST, here: set[str], words: set[str], below: list[ast.AST]) -> None:
    """Puts the names that a node has itself into ``here``, those in its lists into ``words``."""
    for value in node.__dict__.values():
        kind = type(value)
        if kind is int:  # most are line and column numbers
            continue
        if kind is str:
            here.add(value)
        elif kind is list:
            for item in value:
                if type(item) is str:
                    words.add(item)
                elif isinstance(item, ast.AST):
                    below.append(item)
        elif isinstance(value, ast.AST) and value._fields:
            # Not Load() and Add(), which a third of all nodes are.
            below.append(value)


def _own(attributes: Iterable[ast.Attribute], noted: Iterable[ast.AST], root: ast.AST) -> Iterator[str]:
    """``lane`` of ``self.lane`` and ``getattr(self, "lane")``, where ``self`` is the first parameter."""
    parameters = (*root.args.posonlyargs, *root.args.args) if isinstance(root, FUNCTIONS) else ()
    if not parameters:
        return
    first = parameters[0].arg
    for node in attributes:
        if type(node.value) is ast.Name and node.value.id == first:
            yield node.attr
    for call in noted:
        match call:
            case ast.Call(args=[ast.Name(id=owner), ast.Constant(value=str() as name), *_]) if owner == first:
                yield name
            case _:
                pass


_WITHS = (ast.With, ast.AsyncWith)
_NOTED = frozenset({ast.Global, ast.Assign, ast.AnnAssign, ast.Return, ast.Call, *_WITHS, *IMPORTS})


_DEEP = 200
"""Levels of a tree that is hardly written by hand; nothing is said of what it gives."""


def _given(
    node: ast.AST, declared: set[str], variables: frozenset[str] | None = None
) -> Iterator[tuple[str, frozenset[str]]]:
    """What a statement puts into attributes, or returns; ``self.lanes.append(Stream())`` too.

    In a function, with these ``variables``, also into tables of the module: ``LANES[device] = lane``.
    """
    match node:
        case ast.Assign(targets=targets, value=value):
            names = [name for target in targets for name in _attributes(target, declared, variables)]
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            names = list(_attributes(target, declared, variables))
        case ast.Return(value=ast.expr() as value):
            names = [""]
        case ast.Call(func=ast.Attribute(value=owner, attr=method), args=[*_, value]) if method in FILLS:
            names = list(_attributes(owner, declared, variables, within=True))
        case _:
            return
    if names:
        sources = frozenset(_sources(value))
        yield from ((name, sources) for name in names if sources)


def given(statement: ast.stmt, names: set[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """What a statement, and those in it, put into these variables."""
    for node in ast.walk(statement):
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            yield from _given(node, names)


def _attributes(
    target: ast.expr, declared: set[str], variables: frozenset[str] | None, *, within: bool = False
) -> Iterator[str]:
    match target:
        case ast.Attribute(attr=name):
            yield name
        case ast.Name(id=name) if name in declared or (
            within and variables is not None and name not in variables
        ):
            yield name
        case ast.Subscript(value=inner):
            yield from _attributes(inner, declared, variables, within=True)
        case ast.Starred(value=inner):
            yield from _attributes(inner, declared, variables)
        case ast.Tuple(elts=items) | ast.List(elts=items):
            for item in items:
                yield from _attributes(item, declared, variables)
        case _:
            pass


def _sources(value: ast.expr) -> Iterator[str]:
    """The last names of what a value is, or holds: of variables and attributes, and of what is called.

    What is called is told apart, and keeps a name before it: ``threading.Event()`` is none of a device.
    """
    match value:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            yield name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)):
            yield f"{owner}.{name}()"
        case ast.Call(func=func):
            yield f"{_last_name(func)}()"
        case ast.Subscript(value=inner) | ast.Starred(value=inner) | ast.Await(value=inner):
            yield from _sources(inner)
        case ast.ListComp(elt=inner) | ast.SetComp(elt=inner) | ast.GeneratorExp(elt=inner):
            yield from _sources(inner)
        case ast.DictComp(value=inner) | ast.NamedExpr(value=inner):
            yield from _sources(inner)
        case ast.IfExp(body=body, orelse=orelse):
            yield from (*_sources(body), *_sources(orelse))
        case ast.BoolOp(values=items) | ast.Tuple(elts=items) | ast.List(elts=items) | ast.Dict(values=items):
            for item in items:
                yield from _sources(item)
        case _:
            pass


def _entered_by(nodes: Iterable[ast.AST]) -> frozenset[str]:
    return frozenset(name for node in nodes if isinstance(node, _WITHS) for name in _entered(node))


def _entered(node: ast.With | ast.AsyncWith) -> Iterator[str]:
    for item in node.items:
        if isinstance(item.context_expr, (ast.Name, ast.Attribute, ast.Subscript)):
            yield _last_name(item.context_expr)


def _identifiers(words: set[str]) -> Iterator[str]:
    for word in words:
        if word.isidentifier():
            yield word
        elif "." in word and " " not in word:  # import a.b
            yield from (part for part in word.split(".") if part.isidentifier())


def flat(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.stmt, bool]]:
    """The statements of a block and of the ``if``, ``try``, ``with`` and loops in it, in order.

    The flag says that a statement stands in a branch that is there for when the usual one does
    not apply: ``else``, ``except``, or ``if TYPE_CHECKING``. Definitions are not entered.
    """
    stack = [(statement, False) for statement in reversed(body)]
    while stack:
        statement, fallback = stack.pop()
        yield statement, fallback
        if isinstance(statement, DEFINITIONS):
            continue
        for block, spare in reversed(list(_blocks(statement))):
            stack.extend((inner, fallback or spare) for inner in reversed(block))


def _blocks(statement: ast.stmt) -> Iterator[tuple[list[ast.stmt], bool]]:
    typing_only = isinstance(statement, ast.If) and _last_name(statement.test) == "TYPE_CHECKING"
    yield getattr(statement, "body", []), typing_only
    for handler in getattr(statement, "handlers", []):
        yield handler.body, True
    for case in getattr(statement, "cases", []):
        yield case.body, False
    yield getattr(statement, "orelse", []), isinstance(statement, ast.If) and not typing_only
    yield getattr(statement, "finalbody", []), False


def _last_name(node: ast.expr) -> str:
    return dotted(node).rpartition(".")[2]


def dotted(node: ast.expr) -> str:
    """``a.b.c`` as text; of a call or a subscript its function or value; ``"?"`` if there is none."""
    parts: list[str] = []
    while True:
        match node:
            case ast.Call(func=inner) | ast.Subscript(value=inner):
                parts.clear()
                node = inner
            case ast.Attribute(value=inner, attr=attr):
                parts.append(attr)
                node = inner
            case ast.Name(id=name):
                return ".".join([name, *reversed(parts)])
            case _:
                return "?"


def bound_names(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Names that statements bind in their own scope, other than by definitions and imports."""
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
                continue
            case ast.Import() | ast.ImportFrom():
                continue
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield name
            case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                yield name
        if isinstance(node, ast.comprehension):  # its target is its own
            stack.extend((node.iter, *node.ifs))
        else:
            stack.extend(ast.iter_child_nodes(node))
