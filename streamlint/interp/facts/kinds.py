"""What a value is and where it lives, as one piece of code says it: annotations, and telling uses."""

from __future__ import annotations

import builtins
import sys
from enum import Enum
from typing import TYPE_CHECKING

from streamlint import ir, models
from streamlint.frozen import frozen, replace
from streamlint.interp.state.kept import Kept
from streamlint.interp.state.values import ApiV, ClassV
from streamlint.models import classes as library_classes
from streamlint.models import schema as fx
from streamlint.models import torch as torch_model
from streamlint.models.python import HOLDS, PLAIN_TYPES
from streamlint.models.schema import Role
from streamlint.trace import Evidence, Space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from streamlint.interp.state.project import Project
    from streamlint.source import Span


class Kind(Enum):
    MEMORY = "a tensor or an array"
    PLAIN = "a number, a text or a handle"
    MODULE = "a module of torch.nn"
    UNKNOWN = "not known"


@frozen()
class Fact:
    """What is known of a value, and how."""

    kind: Kind
    by: Evidence = Evidence.ASSUMED
    space: Space = Space.UNKNOWN
    residence: Evidence = Evidence.ASSUMED

    def at_most(self, limit: Evidence) -> Fact:
        return replace(self, by=min(self.by, limit), residence=min(self.residence, limit))


NOTHING = Fact(Kind.UNKNOWN)
PLAIN = Fact(Kind.PLAIN, Evidence.SHOWN)
TENSOR = Fact(Kind.MEMORY, Evidence.SHOWN)
MODULE = Fact(Kind.MODULE, Evidence.SHOWN)
NO_MEMORY = frozenset({Kind.PLAIN, Kind.MODULE})


def tensor(space: Space, residence: Evidence = Evidence.SHOWN) -> Fact:
    return Fact(Kind.MEMORY, Evidence.SHOWN, space, residence)


def inferred(space: Space = Space.UNKNOWN) -> Fact:
    residence = Evidence.ASSUMED if space is Space.UNKNOWN else Evidence.INFERRED
    return Fact(Kind.MEMORY, Evidence.INFERRED, space, residence)


def joined(facts: Iterable[Fact]) -> Fact:
    """What holds of a value that may be any of these; one of which nothing is known leaves an inference."""
    given = list(facts)
    known = [fact for fact in given if fact.kind is not Kind.UNKNOWN]
    if not known or len({fact.kind for fact in known}) > 1:
        return NOTHING
    limit = Evidence.SHOWN if len(known) == len(given) else Evidence.INFERRED
    spaces = {fact.space for fact in known}
    if known[0].kind is Kind.PLAIN and spaces == {Space.DEVICE, Space.PAGEABLE}:
        # "cuda" if torch.cuda.is_available() else "cpu": streams are ordered where there is a GPU.
        spaces, limit = {Space.DEVICE}, Evidence.INFERRED
    space = spaces.pop() if len(spaces) == 1 else Space.UNKNOWN
    residence = min(fact.residence for fact in known) if space is not Space.UNKNOWN else Evidence.ASSUMED
    return Fact(known[0].kind, min(fact.by for fact in known), space, residence).at_most(limit)


def surest(facts: Iterable[Fact]) -> Fact:
    """What several sources say of one value: the surest counts, for its kind and for its place."""
    best = NOTHING
    for fact in facts:
        if fact.kind is Kind.UNKNOWN:
            continue
        if best.kind is Kind.UNKNOWN or (fact.by > best.by and fact.kind is not best.kind):
            best = fact
        elif fact.kind is best.kind:
            placed = fact if fact.residence > best.residence else best
            best = Fact(best.kind, max(best.by, fact.by), placed.space, placed.residence)
    return best


# ----------------------------------------------------------------------------- annotations


@frozen()
class Names:
    """What the names of a module stand for, in its annotations."""

    project: Project
    module: str
    of_class: Callable[[str], Fact] = lambda _: NOTHING
    """What objects of other classes are, by their names: those of the tree, modules."""

    def fact(self, text: str) -> Fact:
        """``torch.Tensor``, ``np.ndarray``, ``int``; a class of the tree may have any of these names."""
        value = self.project.named(self.module, text)
        match value:
            case ClassV(decl):
                path = f"{decl.module}.{decl.qualname}"
                return TENSOR if path in library_classes.TENSORS else self.of_class(text)
            case ApiV(path):
                return _outside(path) or self.of_class(text)
            case _:
                return _outside(text) or self.of_class(text)

    def role(self, text: str) -> Role | None:
        """Whether a name stands for a library's class of streams or events."""
        value = self.project.named(self.module, text)
        return _role_of_class(value.path) if isinstance(value, ApiV) else None


def _outside(path: str) -> Fact | None:
    """What objects of a class outside of the tree are; of unseen packages, those that have a known name."""
    name = path.rpartition(".")[2]
    if name in PLAIN_TYPES or name in library_classes.PLAIN or _role_of_class(path) is not None:
        return PLAIN
    if path in library_classes.HOST_ARRAYS:
        return tensor(Space.PAGEABLE, Evidence.ASSUMED)
    if path in library_classes.DEVICE_ARRAYS:
        return tensor(Space.DEVICE)
    is_tensor = name in _TENSORS and path.partition(".")[0] not in sys.stdlib_module_names
    return TENSOR if is_tensor or path.startswith(library_classes.ARRAYS) else None


_TENSORS = frozenset(path.rpartition(".")[2] for path in library_classes.TENSORS)


def annotated(annotation: ir.Expr | None, names: Names) -> Fact:
    """``x: torch.Tensor``, ``rank: int``, ``group: ProcessGroup | None``, ``rows: wp.array(dtype=float)``."""
    match annotation:
        case ir.Const(value=str() as text):
            return names.fact(text)
        case ir.Name() | ir.Attr():
            return names.fact(ir.dotted(annotation))
        case ir.Call(func=ir.Attr() as func):
            return annotated(func, names)
        case ir.Binary(op="|", left=left, right=right):
            return joined(annotated(part, names) for part in (left, right) if not _is_none(part))
        case ir.Index(value=ir.Name(id="Optional") | ir.Attr(name="Optional"), index=inner):
            return annotated(inner, names)
        case ir.Index(value=ir.Name(id="Callable" | "Literal") | ir.Attr(name="Callable" | "Literal")):
            return PLAIN
        case ir.Index(value=ir.Name(id=holder) | ir.Attr(name=holder), index=held) if holder in HOLDS:
            # tuple[float, int], dict[str, bool]: nothing in it is memory.
            parts = held.items if isinstance(held, ir.Seq) else (held,)
            inside = [annotated(part, names) for part in parts if not _is_ellipsis(part)]
            return PLAIN if all(fact.kind is Kind.PLAIN for fact in inside) else NOTHING
        case _:
            return NOTHING


_MAKES = {fx.NewStream: Role.STREAM, fx.ForeignStream: Role.STREAM, fx.NewEvent: Role.EVENT}


def _role_of_class(path: str) -> Role | None:
    """Whether objects of a library's class are streams or events: ``torch.Stream``, ``cupy.cuda.Event``."""
    row = models.find_function(path)
    effects = row[1].effects if row is not None else ()
    return next((role for effect in effects if (role := _MAKES.get(type(effect))) is not None), None)


def role_named(annotation: ir.Expr | None, names: Names) -> Role | None:
    """``torch.cuda.Stream``, ``Optional[torch.Stream]``, ``torch.Event | None``: what it says a value is."""
    match annotation:
        case ir.Const(value=str() as text):
            return names.role(text)
        case ir.Name() | ir.Attr():
            return names.role(ir.dotted(annotation))
        case ir.Binary(op="|", left=left, right=right):
            said = {role_named(part, names) for part in (left, right) if not _is_none(part)}
            return said.pop() if len(said) == 1 else None
        case ir.Index(value=ir.Name(id="Optional") | ir.Attr(name="Optional"), index=inner):
            return role_named(inner, names)
        case _:
            return None


def held(annotation: ir.Expr | None) -> tuple[ir.Expr, ...]:
    """What the elements of a container may be: ``list[torch.Tensor]``, the values of ``dict[str, Page]``."""
    match annotation:
        case ir.Index(value=ir.Name(id="Optional") | ir.Attr(name="Optional"), index=inner):
            return held(inner)
        case ir.Binary(op="|", left=inner, right=ir.Const(value=None)):
            return held(inner)
        case ir.Index(value=ir.Name(id=holder) | ir.Attr(name=holder), index=inside) if holder in HOLDS:
            parts = inside.items if isinstance(inside, ir.Seq) else (inside,)
            known = tuple(part for part in parts if not _is_ellipsis(part))
            return known if HOLDS[holder] else known[-1:]
        case _:
            return ()


def _is_none(e: ir.Expr) -> bool:
    return isinstance(e, ir.Const) and e.value is None


def _is_ellipsis(e: ir.Expr) -> bool:
    return isinstance(e, ir.Const) and e.value is ...


# ----------------------------------------------------------------------------- uses

_USES: Kept[tuple[str, str, Span], dict[str, Fact]] = Kept()


def uses(project: Project, function: ir.Function) -> dict[str, Fact]:
    """What a function's uses of its names say of them, its whole text seen at once.

    ``slots.record_stream(s)`` at its end shows that ``table[slots]`` at its start gathered, on a device.
    """
    place = (function.module, function.qualname, function.span)
    return project.once(_USES, place, lambda: _uses(project, function))


def _uses(project: Project, function: ir.Function) -> dict[str, Fact]:
    found: dict[str, list[Fact]] = {}
    names = Names(project, function.module)
    told = (each for test in _always_told(function.body) for each in _told(names, test))
    used = (each for node in ir.walk(function.body) for each in _use(project, function.module, node))
    for name, fact in (*told, *used):
        found.setdefault(name, []).append(fact)
    return {name: surest(facts) for name, facts in found.items()}


def _use(project: Project, module: str, node: object) -> Iterable[tuple[str, Fact]]:
    match node:
        case ir.Call(func=ir.Attr(value=ir.Name(id=name), name="record_stream")):
            yield name, inferred(Space.DEVICE)
        case ir.Call(func=ir.Attr(value=ir.Name(id=name), name="pin_memory")):
            # Only host memory can be pinned.
            yield name, inferred(Space.PAGEABLE)
        case ir.Call(func=ir.Attr(value=ir.Name(id=name), name=method)) if (
            method in torch_model.ONLY_TENSORS_HAVE
        ):
            yield name, inferred()
        case ir.Call(func=ir.Attr(value=ir.Name(id=name), name=method)) if (
            method in torch_model.ONLY_MODULES_HAVE
        ):
            # self.model = model.to(device), and then torch.optim.SGD(model.parameters(), lr)
            yield name, MODULE.at_most(Evidence.INFERRED)
        case ir.Call(func=func, args=args) if args:
            path = dotted(project, module, func)
            for argument in args:
                match argument:
                    case ir.Arg(value=ir.Name(id=name), keyword=None) if path == "range":
                        yield name, PLAIN.at_most(Evidence.INFERRED)
                    case _:
                        pass
        case _:
            pass


def _always_told(body: Sequence[ir.Stmt]) -> Iterator[ir.Expr]:
    """Tests that all calls of a function have passed which go on: ``assert x.is_cuda``.

    Not those behind ``if isinstance(x, torch.Tensor): return list(x)``, which tell of other calls.
    """
    for statement in body:
        match statement:
            case ir.Assert(test=test) | ir.If(test=ir.Unary(op="not", operand=test), body=(ir.Raise(), *_)):
                yield test
            case ir.With(body=inside):
                yield from _always_told(inside)
            case _:
                pass
        if any(isinstance(node, ir.Return) for node in ir.walk((statement,))):
            return


def _told(names: Names, test: ir.Expr) -> Iterable[tuple[str, Fact]]:
    """``assert x.is_cuda``, ``assert x.is_pinned()``, ``assert isinstance(x, torch.Tensor)``."""
    match test:
        case ir.Attr(value=ir.Name(id=name), name="is_cuda"):
            yield name, tensor(Space.DEVICE)
        case ir.Compare(
            op="==",
            left=ir.Attr(value=ir.Attr(value=ir.Name(id=name), name="device"), name="type"),
            right=ir.Const(value=str() as text),
        ):
            yield name, tensor(Space.PAGEABLE if text == "cpu" else Space.DEVICE)
        case ir.Call(func=ir.Attr(value=ir.Name(id=name), name="is_pinned")):
            yield name, tensor(Space.PINNED)
        case ir.Call(
            func=ir.Name(id="isinstance"), args=(ir.Arg(value=ir.Name(id=name)), ir.Arg(value=type_))
        ):
            yield name, annotated(type_, names)
        case ir.Boolean(op="and", operands=operands):
            for operand in operands:
                yield from _told(names, operand)
        case _:
            pass


def dotted(project: Project, module: str, e: ir.Expr) -> str:
    """``"torch.empty"``: what a name of the module stands for, or a builtin; ``""`` for a variable.

    ``valids.cpu()`` of a parameter ``valids`` is a method of what that is, and no function of a module.
    """
    match e:
        case ir.Name(id=name):
            found = project.member(module, name)
            if isinstance(found, ApiV):
                return found.path
            return name if found is None and hasattr(builtins, name) else ""
        case ir.Attr(value=value, name=name) if isinstance(value, (ir.Name, ir.Attr)):
            base = dotted(project, module, value)
            return f"{base}.{name}" if base else ""
        case _:
            return ""
