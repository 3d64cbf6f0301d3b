"""Who may work on a stream that an object has made for itself, by the text of the module."""

from __future__ import annotations

from streamlint import ir
from streamlint.interp.facts import text_order
from streamlint.models import python, vocabulary


def by_others(module: ir.Module, cls: ir.ClassDecl) -> frozenset[str]:
    """Names of streams that other code than a class makes current: ``with source.stream: next(source)``.

    So does whoever gets one from a method, or a block: ``def active(self): return cuda.stream(self.side)``.
    """
    methods = {decl for one in ir.all_classes(module) for decl in one.methods.values()}
    entered = (_entered(decl) - (decl.own if decl in methods else set()) for decl in ir.all_functions(module))
    return frozenset().union(*entered, *map(_given_out, cls.methods.values()))


def _entered(decl: ir.FunctionDecl) -> set[str]:
    """``lane`` of ``with torch.cuda.stream(source.lane):``, ``with source.lane:``"""
    if vocabulary.ENTERS_STREAM.isdisjoint(decl.called):
        return set(decl.entered)
    function = ir.code_of(decl)
    calls = (node for node in ir.walk(function.body, functions=True)) if function is not None else ()
    return set(decl.entered).union(
        *(
            text_order.held_name(arg.value)
            for call in calls
            if isinstance(call, ir.Call) and ir.called(call) in vocabulary.ENTERS_STREAM
            for arg in call.args
        )
    )


def _given_out(decl: ir.FunctionDecl) -> frozenset[str]:
    """What a method returns, and what it has made current when it hands over."""
    returned = frozenset(source for name, sources in decl.given if not name for source in sources)
    if vocabulary.ENTERS_STREAM.isdisjoint(decl.called):
        return returned
    is_block = decl.name in python.BEGINS_BLOCK or any(
        text.rpartition(".")[2] in python.MAKES_CONTEXTS for text in decl.decorators
    )
    return returned | decl.own if is_block or any(map(_enters, returned)) else returned


def _enters(source: str) -> bool:
    return source.removesuffix("()").rpartition(".")[2] in vocabulary.ENTERS_STREAM
