"""Classes of the tree: their members, and the fields of their objects."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from streamlint import ir, models
from streamlint.frozen import replace
from streamlint.interp.facts import decorators, modules, registering, scopes
from streamlint.interp.state import names, symbols
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    ClassV,
    ConstV,
    FuncV,
    HeapV,
    Shape,
    SymV,
    Value,
)
from streamlint.models import host, python
from streamlint.models.autograd import FUNCTION
from streamlint.models.classes import TENSORS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.project import Project


def lookup(m: Machine, decl: ir.ClassDecl, name: str) -> Value | None:
    """A class member along the bases: a method, an inner class, or a class variable."""
    order, _ = m.project.ancestors(decl)
    for cls in order:
        changed = m.globals.get((f"{cls.module}:{cls.qualname}", name))
        if changed is not None:
            return changed
        if name in cls.methods:
            return FuncV(cls.methods[name], m.made_in.get(cls))
        if name in cls.inner:
            return ClassV(cls.inner[name])
        value = _class_variable(m, cls, name)
        if value is not None:
            return value
    return None


def bound(m: Machine, made: HeapV, method: FuncV) -> FuncV:
    """A method as it is read from an object: it gets that, its class (``@classmethod``), or neither.

    Those of a function of autograd are static, but get one context: what the object stands for then.
    """
    owner = m.heap[made.id].cls
    if decorators.is_static(method.function) and not (owner is not None and is_of_autograd(m.project, owner)):
        return method
    gets = ClassV(owner) if owner is not None and decorators.is_of_class(method.function) else made
    return FuncV(method.function, method.closure, gets)


def methods(project: Project, decl: ir.ClassDecl) -> dict[str, ir.FunctionDecl]:
    """The methods of a class, inherited ones too, as lookup finds them."""
    found: dict[str, ir.FunctionDecl] = {}
    for cls in project.ancestors(decl)[0]:
        for name, method in cls.methods.items():
            found.setdefault(name, method)
    return found


def is_enumeration(project: Project, decl: ir.ClassDecl) -> bool:
    """Whether the variables of a class are members of it: ``class Kind(IntEnum): HALF = 0``."""
    order, _ = project.ancestors(decl)
    return any(base.rpartition(".")[2] in host.ENUMERATIONS for cls in order for base in cls.bases)


def names_enumeration(project: Project, module: ir.Module, name: str) -> bool:
    """Whether a module knows a class by a name whose variables are members of it."""
    found = project.member(module.name, name)
    return isinstance(found, ClassV) and is_enumeration(project, found.decl)


def _class_variable(m: Machine, cls: ir.ClassDecl, name: str) -> Value | None:
    written = scopes.assigned(cls, name)
    if written is None:
        return None
    module = m.project.module(cls.module)
    value = modules.at_import(m, module, written) if module is not None else None
    if module is not None and is_automatic(m, module, written) and is_enumeration(m.project, cls):
        value = ConstV(_counted(m, module, cls, name))
    found = value if value is not None else SymV(symbols.Attr(symbols.Name(cls.qualname), name))
    if isinstance(found, ConstV) and is_enumeration(m.project, cls):
        found = replace(found, member=True)
    m.globals[f"{cls.module}:{cls.qualname}", name] = found
    registering.opened(m, f"{cls.module}:{cls.qualname}", name, found, cls.methods.values())
    return found


def is_automatic(m: Machine, module: ir.Module, written: ir.Expr) -> bool:
    """``COPYING = auto()``"""
    if not isinstance(written, ir.Call):
        return False
    called = modules.at_module_level(m, module, written.func)
    return isinstance(called, ApiV) and called.path == host.AUTOMATIC


def _counted(m: Machine, module: ir.Module, cls: ir.ClassDecl, name: str) -> int:
    """What ``auto()`` gives a member: one more than the number before, or the next bit of a ``Flag``."""
    order, _ = m.project.ancestors(cls)
    flags = any(base.rpartition(".")[2] in host.FLAGS for one in order for base in one.bases)
    number = 0
    for statement in cls.load_body():
        match statement:
            case ir.Assign(targets=(ir.Name(id=bound),), value=ir.Const(value=int() as written)):
                number = written
            case ir.Assign(targets=(ir.Name(id=bound),), value=written) if is_automatic(m, module, written):
                number = 1 << number.bit_length() if flags else number + 1
                if bound == name:
                    break
            case _:
                pass
    return number


def method(m: Machine, value: HeapV, name: str) -> FuncV | None:
    """A method of an instance, bound to it."""
    held = m.heap[value.id]
    if held.cls is None or not name:
        return None
    found = lookup(m, held.cls, name)
    return FuncV(found.function, found.closure, value) if isinstance(found, FuncV) else None


def new(m: Machine, decl: ir.ClassDecl) -> HeapV:
    """``Class.__new__(Class)``: an object without attributes of its own."""
    return m.new_object(Shape.INSTANCE, cls=decl, symbol=symbols.Thing(decl.name, len(m.heap)))


def declared(cls: ir.ClassDecl) -> dict[str, list[ir.Expr]]:
    """The annotations of a class by the fields that have them."""
    found: dict[str, list[ir.Expr]] = {}
    for statement in cls.load_body():
        match statement:
            case ir.Declare(target=ir.Name(id=name), annotation=annotation):
                found.setdefault(name, []).append(annotation)
            case _:
                pass
    return found


def is_data(m: Machine, decl: ir.ClassDecl | None) -> bool:
    """Whether the objects of a class are declared to be data: ``@dataclass``, ``NamedTuple``."""
    return decl is not None and dataclass_fields(m, decl) is not None


def is_set_by_keyword(m: Machine, cls: ir.ClassDecl, name: str, value: Value) -> bool:
    """Whether a flag in the body of a class is a field that a constructor out of sight may have set.

    ``class Modifier(Base): offload: bool = False``, where ``Base`` is not there to read: whoever declares
    types of variables with defaults, and has no ``__init__``, mostly has ``Modifier(offload=True)``.
    """
    order, whole = m.project.ancestors(cls)
    if whole or not (isinstance(value, ConstV) and (value.value is None or isinstance(value.value, bool))):
        return False
    if any("__init__" in one.methods for one in order):
        return False
    annotations = (said for one in order for said in declared(one).get(name, ())[:1])
    return any(not _says(said, _OF_CLASS) for said in annotations)


def dataclass_fields(m: Machine, decl: ir.ClassDecl) -> dict[str, ir.Expr | None] | None:
    """Field names and defaults of a dataclass, a NamedTuple or a similar class; None for others."""
    fields: dict[str, ir.Expr | None] = {}
    order, _ = m.project.ancestors(decl)
    declared = any(
        "dataclass" in name or name.rpartition(".")[2] in host.MAKES_FIELDS
        for cls in order
        for name in cls.decorators
    )
    declared = declared or any(
        base.rpartition(".")[2] in host.HAVE_FIELDS for cls in order for base in cls.bases
    )
    if not declared:
        return None
    for cls in reversed(order):
        for statement in cls.load_body():
            match statement:
                case ir.Declare(target=ir.Name(id=name)):
                    fields.setdefault(name)
                case ir.Assign(targets=(ir.Name(id=name),), value=value):
                    fields[name] = value
                case _:
                    pass
    return fields


def fields_of_constructor(project: Project, decl: ir.ClassDecl) -> list[str] | None:
    """The fields that the constructor of a dataclass only keeps, in their order; None for other classes.

    What a tuple holds (``NamedTuple``), code also gets at without their names.
    """
    order, _ = project.ancestors(decl)
    if any("__init__" in cls.methods for cls in order):
        return None
    if not any("dataclass" in name for cls in order for name in cls.decorators):
        return None
    said = [item for cls in reversed(order) for item in declared(cls).items()]
    if any(_says(annotation, "InitVar") for _, types in said for annotation in types):
        return []
    made = {name for cls in order for name in _made_by_itself(cls)}
    fields = (name for name, types in said if not any(_says(one, _OF_CLASS) for one in types))
    return [name for name in dict.fromkeys(fields) if name not in made]


def _made_by_itself(cls: ir.ClassDecl) -> Iterator[str]:
    """``total: int = field(init=False)``"""
    for statement in cls.load_body():
        match statement:
            case ir.Assign(targets=(ir.Name(id=name),), value=ir.Call(args=args)) if any(
                arg.keyword == "init" for arg in args
            ):
                yield name
            case _:
                pass


_OF_CLASS = "ClassVar"


def _says(annotation: ir.Expr, name: str) -> bool:
    """``limit: ClassVar[int]``"""
    said = annotation.value if isinstance(annotation, ir.Index) else annotation
    return ir.dotted(said).rpartition(".")[2] == name


def class_of(m: Machine, func: FuncV, args: list[Value]) -> ir.ClassDecl | None:
    """The class whose body holds the function: where ``super()`` starts; ``Base.__init__(self)`` too."""
    receiver = names.settle(m, func.receiver or (args[0] if args else NONE))
    cls = m.heap[receiver.id].cls if isinstance(receiver, HeapV) else None
    if isinstance(receiver, ClassV):
        cls = receiver.decl
    if cls is None:
        return None
    for ancestor in m.project.ancestors(cls)[0]:
        if ancestor.methods.get(func.function.name) is func.function:
            return ancestor
    return cls if func.receiver is not None else None


def is_abstract(function: ir.Function) -> bool:
    """``def synchronize(self): raise NotImplementedError``: a subclass that is not in sight does it.

    So does a class of which only the form is told: ``def capture(self, stream): ...`` of a ``Protocol``.
    """
    match function.body:
        case (ir.Raise(),) | (ir.Eval(value=ir.Const()), ir.Raise()):
            return True
        case (*said, ir.Eval(value=ir.Const(value=last))) if not said or _is_told(said):
            return last is ... or _is_left_to_heirs(function)
        case ():
            return _is_left_to_heirs(function)
        case _:
            return False


def _is_told(said: Sequence[ir.Stmt]) -> bool:
    """Whether nothing but a docstring comes before."""
    return len(said) == 1 and isinstance(said[0], ir.Eval) and isinstance(said[0].value, ir.Const)


def _is_left_to_heirs(function: ir.Function) -> bool:
    return decorators.is_abstract(function)


def is_protocol(cls: ir.ClassDecl) -> bool:
    """``class Closable(Protocol)``: it says what objects of other classes have."""
    return any(base.rpartition(".")[2] == "Protocol" for base in cls.bases)


def is_mapping(m: Machine, value: HeapV) -> bool:
    """Whether the class of an object is derived from ``collections.abc.Mapping``."""
    cls = m.heap[value.id].cls
    if cls is None:
        return False
    bases = (m.project.named(one.module, base) for one in m.project.ancestors(cls)[0] for base in one.bases)
    return any(isinstance(base, ApiV) and base.path.rpartition(".")[2] in python.MAPPINGS for base in bases)


def behind(m: Machine, cls: ir.ClassDecl, receiver: Value) -> list[ir.ClassDecl]:
    """Where ``super()`` looks in a method of ``cls``, in the order of the object's own class."""
    own = m.heap[receiver.id].cls if isinstance(receiver, HeapV) else None
    own = receiver.decl if isinstance(receiver, ClassV) else own
    order = m.project.ancestors(own)[0] if own is not None else []
    if cls not in order:
        order = m.project.ancestors(cls)[0]
    return order[order.index(cls) + 1 :]


def is_module(project: Project, cls: ir.ClassDecl) -> bool:
    """Whether it is derived from a class of ``torch.nn``, but for parameters: ``class Net(nn.Module)``."""
    paths = bases_outside(project, cls)
    return any(path.startswith("torch.nn.") and path not in TENSORS for path in paths)


def is_tensor(project: Project, cls: ir.ClassDecl) -> bool:
    """``class Sharded(torch.nn.Parameter)``"""
    return derives_from(project, cls, TENSORS)


def is_of_autograd(project: Project, cls: ir.ClassDecl) -> bool:
    """``class Linear(torch.autograd.Function)``"""
    return derives_from(project, cls, FUNCTION)


def is_thread(project: Project, cls: ir.ClassDecl) -> bool:
    """Whether it is derived from ``threading.Thread``: a thread calls its ``run``."""
    return derives_from(project, cls, python.THREADS)


def extends_library(project: Project, cls: ir.ClassDecl) -> bool:
    """Whether what it inherits out of sight is all of libraries in the tables: ``class Loader(DataLoader)``.

    Those know nothing of the streams that it keeps in attributes of its own.
    """
    paths = list(bases_outside(project, cls))
    return bool(paths) and all(path.partition(".")[0] in models.ROOTS for path in paths)


def extends_others(project: Project, cls: ir.ClassDecl) -> bool:
    """Whether some of it comes from a package that may know of streams: none of the tables, nor of Python."""
    roots = (path.partition(".")[0] for path in bases_outside(project, cls))
    return any(root not in models.ROOTS and root not in sys.stdlib_module_names for root in roots)


def derives_from(project: Project, cls: ir.ClassDecl, paths: frozenset[str]) -> bool:
    """Whether one of these classes, which are not of the tree, is among those that it is derived from."""
    return not paths.isdisjoint(bases_outside(project, cls))


def bases_outside(project: Project, cls: ir.ClassDecl) -> Iterator[str]:
    """The classes outside of the tree that it is derived from."""
    named = (project.named(one.module, base) for one in project.ancestors(cls)[0] for base in one.bases)
    return (base.path for base in named if isinstance(base, ApiV))
