"""What runs while an object is made, and what functions of the module do with an object that they get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import classes
from streamlint.interp.state.kept import Kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.project import Project


_CONSTRUCTING: Kept[ir.ClassDecl, tuple[ir.FunctionDecl, ...]] = Kept()
_OWN: Kept[ir.FunctionDecl, frozenset[str]] = Kept()


def constructing(project: Project, cls: ir.ClassDecl) -> tuple[ir.FunctionDecl, ...]:
    """The constructor of a class, those of its bases that it leads to, and the methods that these call.

    ``def __init__(self): self._allocate()`` makes what stands in ``_allocate``, wherever else that is called.
    """
    return project.once(_CONSTRUCTING, cls, lambda: tuple(_constructing(project, cls)))


def _constructing(project: Project, cls: ir.ClassDecl) -> Iterator[ir.FunctionDecl]:
    order, _ = project.ancestors(cls)
    makers = [one.methods["__init__"] for one in order if "__init__" in one.methods]
    methods = classes.methods(project, cls)
    waiting, seen = makers[:1], set(makers[:1])
    while waiting:
        decl = waiting.pop()
        yield decl
        more = [methods[name] for name in decl.called & decl.own & methods.keys()]
        if decl.name == "__init__" and "__init__" in decl.called:
            more += makers  # super().__init__(), Base.__init__(self)
        waiting += [one for one in more if one not in seen]
        seen.update(more)


def own_attributes(project: Project, method: ir.FunctionDecl) -> frozenset[str]:
    """Attributes of the object that a method uses, or functions of its module to which it hands the object.

    ``def step(self, row): refill(self, row)``.
    """
    return project.once(_OWN, method, lambda: method.own.union(_by_functions(project, method)))


def _by_functions(project: Project, method: ir.FunctionDecl) -> Iterator[str]:
    module = project.module(method.module)
    if module is None or method.called.isdisjoint(module.functions):
        return
    function = ir.code_of(method)
    if function is None or not function.params:
        return
    receiver = function.params[0].name
    for node in ir.walk(function.body):
        match node:
            case ir.Call(func=ir.Name(id=name), args=args) if name in module.functions:
                given = [
                    argument.keyword or place
                    for place, argument in enumerate(args)
                    if isinstance(argument.value, ir.Name) and argument.value.id == receiver
                ]
                if given:
                    yield from _of_parameters(module.functions[name], given)
            case _:
                pass


def _of_parameters(decl: ir.FunctionDecl, given: list[str | int]) -> Iterator[str]:
    """Attributes of some parameters, which stand for one object: by their names or places."""
    function = ir.code_of(decl)
    if function is None:
        return
    named = {param.name for place, param in enumerate(function.params) if {place, param.name} & set(given)}
    for node in ir.walk(function.body, functions=True):
        match node:
            case ir.Attr(value=ir.Name(id=owner), name=name) if owner in named:
                yield name
            case _:
                pass
