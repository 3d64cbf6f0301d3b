"""Tables that other modules fill when they are imported.

``@Platforms.register("cuda")`` stands in the file of a platform; that of the table has ``_platforms = {}``,
and a decorator which puts there what it is given. By the time that other code asks the table, something is
in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.state.kept import Kept
from streamlint.interp.state.values import HeapV, Shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.values import Value

_REGISTRIES: Kept[tuple[str, str], bool] = Kept()


def opened(m: Machine, owner: str, name: str, value: Value, decls: Iterable[ir.FunctionDecl]) -> None:
    """A variable of a module or a class is read for the first time: what it holds, other modules may tell.

    ``decls`` are functions of the module, or methods of the class, that may fill it.
    """
    if not isinstance(value, HeapV):
        return
    held = m.heap[value.id]
    if held.shape is not Shape.DICT or held.entries or held.open:
        return
    held.open = m.project.once(
        _REGISTRIES,
        (owner, name),
        lambda: any(name in _kept_by(decl) for decl in decls if name in decl.names),
    )


def _kept_by(decl: ir.FunctionDecl) -> Iterator[str]:
    """The tables into which a decorator, or one that it makes, puts what it is given, and gives that back."""
    function = ir.code_of(decl)
    for node in ir.walk(function, functions=True) if function is not None else ():
        if not isinstance(node, ir.Function):
            continue
        given = {param.name for param in node.params}
        back = {
            inner.value.id
            for inner in ir.walk(node.body)
            if isinstance(inner, ir.Return) and isinstance(inner.value, ir.Name)
        }
        for inner in ir.walk(node.body):
            match inner:
                case ir.Assign(targets=(ir.Index(value=table),), value=ir.Name(id=kept)) if (
                    kept in given & back
                ):
                    yield ir.dotted(table).rpartition(".")[2]
                case _:
                    pass
