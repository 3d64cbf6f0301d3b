"""Functions that stand for one of a library, because the program keeps what that would give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import kinds, writes
from streamlint.models import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.project import Project


def gives_current_stream(project: Project, decl: ir.FunctionDecl) -> bool:
    """Whether a function returns what the module's own ``set_stream`` keeps.

    ``def selected(stream): kept.value = stream; select(stream)``, then ``torch.cuda.set_stream = selected``:
    ``return kept.value`` gives the current stream, whoever has selected it.
    """
    module = project.module(decl.module)
    if module is None or not vocabulary.ENTERS_STREAM & module.body_names:
        return False
    kept = {place for replacing in _replacing(project, module) for place in _kept(project, replacing)}
    if not kept:
        return False
    function = ir.code_of(decl)
    returned = writes.of_function(project, function).returned if function is not None else ()
    return bool(returned) and all(writes.written_name(value) in kept for value in returned)


def _replacing(project: Project, module: ir.Module) -> Iterator[ir.FunctionDecl]:
    """Functions that the module puts in the place of one that selects a stream."""
    for statement in module.load_body():
        match statement:
            case ir.Assign(targets=(ir.Attr(name=name) as target,), value=ir.Name(id=own)) if (
                name in vocabulary.ENTERS_STREAM
                and own in module.functions
                and kinds.dotted(project, module.name, target)
            ):
                yield module.functions[own]
            case _:
                pass


def _kept(project: Project, decl: ir.FunctionDecl) -> Iterator[tuple[str, ...]]:
    """Where a function puts its first argument."""
    function = ir.code_of(decl)
    if function is None:
        return
    given = function.params[0].name if function.params else None
    found = writes.of_function(project, function)
    for place, written in (
        *found.attributes.items(),
        *(((name,), all_) for name, all_ in found.names.items()),
    ):
        if any(isinstance(one.value, ir.Name) and one.value.id == given for one in written):
            yield place
