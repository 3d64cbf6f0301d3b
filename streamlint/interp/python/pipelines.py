"""Functions that describe a pipeline of DALI's: a call of one runs it, and gives the pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir, models
from streamlint.frozen import replace
from streamlint.interp.facts import decorators, modules
from streamlint.interp.library import effects
from streamlint.models import dali

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.values import FuncV, Value
    from streamlint.source import Span


def made(m: Machine, func: FuncV, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value | None:
    """``@pipeline_def(exec_dynamic=False)``, and then ``images(files, batch_size=8)``."""
    if func.bare or decorators.chosen(m.project, func.function, dali.MAKES_PIPELINES) is None:
        return None
    row = models.find_function("nvidia.dali.Pipeline")
    assert row is not None, "it stands in the table of DALI"
    pipeline = effects.apply(m, *row, None, [], _options(m, func) | kwargs, span)
    _ask_sources(m, func, args, kwargs, span)
    return pipeline


def _ask_sources(m: Machine, func: FuncV, args: list[Value], kwargs: dict[str, Value], span: Span) -> None:
    """``fn.external_source(source=frames, cuda_stream=frames.stream)``: the pipeline asks for batches."""
    decl, code = func.function, ir.code_of(func.function)
    if code is None or not isinstance(decl, ir.FunctionDecl) or dali.EXTERNAL_SOURCE not in decl.called:
        return
    own = {name: kwargs[name] for param in code.params if (name := param.name) in kwargs}
    m.python.call(m, replace(func, bare=True), args, own, span)


def _options(m: Machine, func: FuncV) -> dict[str, Value]:
    code, module = ir.code_of(func.function), m.project.module(func.function.module)
    if code is None or module is None:
        return {}
    return {
        arg.keyword: value
        for decorator in code.decorators
        if isinstance(decorator, ir.Call)
        for arg in decorator.args
        if arg.keyword and (value := modules.at_module_level(m, module, arg.value)) is not None
    }
