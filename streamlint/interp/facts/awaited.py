"""Whether text may wait for an event that objects hold by some name, or give it to who may.

Traces show who waits on paths that were run. An event that is recorded (``self.done.record()``), and that all
text which can get at it only makes, records, keeps, tests and lets go, nobody waits for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import frozen, replace
from streamlint.interp.facts import text_order
from streamlint.interp.facts.carried import Purpose, Use
from streamlint.models import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.project import Project
    from streamlint.source import Span


@frozen()
class Held:
    """How code gets at an event."""

    attributes: frozenset[str]
    """Names under which objects hold it, or a container with it ..."""
    variables: frozenset[str]
    """... and variables of the module that makes it."""
    module: str
    maker: str
    made: Span | None
    """The function that makes it, and where: variables of its own may hold it, too."""


def may_be_awaited(project: Project, module: ir.Module, held: Held) -> tuple[bool, Held]:
    """Whether a module may wait for the event; and by what code gets at it, with what it is given to here.

    ``self.latest = self.done`` gives it one name more.
    """
    while True:
        known = held
        for use in _uses(project, module, held):
            use.follow()
            if use.does_more():
                return True, held
            held = replace(held, attributes=held.attributes | use.kept)
        if held == known:
            return False, held


def _uses(project: Project, module: ir.Module, held: Held) -> Iterator[Use]:
    at_home = module.name == held.module
    variables = held.variables if at_home else frozenset[str]()
    names = held.attributes | variables
    for decl in ir.all_functions(module):
        makes = at_home and decl.qualname == held.maker
        if names.isdisjoint(decl.names) and not makes:
            continue
        function = ir.code_of(decl)
        if function is None:
            yield Use(project, module, (ir.Unread(decl.span, ""),), held.attributes, _WAITS)
            continue
        use = Use(project, module, function.body, held.attributes, _WAITS, set(variables))
        cls = decl.qualname.rpartition(".")[0]
        if cls and function.params and not (at_home and cls == held.maker.rpartition(".")[0]):
            use.receiver = function.params[0].name
            use.of_receiver = text_order.made_by_class(module, cls, held.attributes)
        if makes:
            use.aliases |= _made_in(function, held.made)
        yield use
    if not names.isdisjoint(module.body_names):
        yield Use(project, module, module.load_body(), held.attributes, _WAITS, set(variables))


def _made_in(function: ir.Function, at: Span | None) -> set[str]:
    """Variables that get the new event: ``done = torch.cuda.Event()``, ``done = side.record_event()``.

    Where no such call stands ``at`` the place itself, those that get any.
    """
    made: set[str] = set()
    here: set[str] = set()
    for node in ir.walk(function.body):
        match node:
            case ir.Assign(targets=targets, value=value):
                calls = [part for part in ir.walk(value) if isinstance(part, ir.Call)]
                names = {target.id for target in targets if isinstance(target, ir.Name)}
                if any(ir.called(call) in _MAKES for call in calls):
                    made |= names
                    here |= names if any(call.span == at for call in calls) else set()
            case _:
                pass
    return here or made


_MAKES = vocabulary.MAKES_EVENT | vocabulary.RECORDS
_WAITS = Purpose(harmless=vocabulary.RECORDS, objects=True)
