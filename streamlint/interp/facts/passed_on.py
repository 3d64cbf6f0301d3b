"""Which functions of a module only hand on what they are given: what is pending on that, others know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import touching, writes

if TYPE_CHECKING:
    from streamlint.interp.state.project import Project


def handing_on(project: Project, module: ir.Module, name: str) -> frozenset[str] | None:
    """The functions that call others of this name, if all pass nothing but what they were given themselves.

    ``def permute(self, x): self.shared.begin(x.view(self.shape))`` knows no more of ``x`` than ``begin``.
    None where one names a stream, which may wait, or has the memory from somewhere else: it is seen there.
    """
    if name in module.body_names:
        return None
    found: set[str] = set()
    for decl in ir.all_functions(module):
        if name not in decl.called:
            continue
        function = ir.code_of(decl)
        if function is None or touching.touches(project, decl) or not _hands_on(project, function, name):
            return None
        found.add(decl.name)
    return frozenset(found)


def _hands_on(project: Project, function: ir.Function, name: str) -> bool:
    text = writes.of_function(project, function)
    given = {param.name for param in function.params if not text.walked.get(param.name)}
    given = {one for one in given if all(_root(value) == one for value in text.assigned(one))}
    if function.params and "." in function.qualname:
        given -= {function.params[0].name}
    return all(
        _root(argument.value) in given
        or not any(isinstance(part, ir.Name) for part in ir.walk(argument.value))
        for node in ir.walk(function.body, functions=True)
        if isinstance(node, ir.Call) and ir.called(node) == name
        for argument in node.args
    )


def _root(e: ir.Expr) -> str:
    """``x`` of ``x.view(shape)``, of ``x[0]`` and of ``x.data``: what they are a part of, or made of."""
    match e:
        case ir.Name(id=name):
            return name
        case ir.Attr(value=value) | ir.Index(value=value) | ir.Call(func=ir.Attr(value=value)):
            return _root(value)
        case _:
            return ""
