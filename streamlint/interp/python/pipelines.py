"""Functions that describe a pipeline of DALI's: a call of one gives the pipeline, and runs nothing of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir, models
from streamlint.interp.facts import decorators, modules
from streamlint.interp.library import effects
from streamlint.models import dali

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.values import FuncV, Value
    from streamlint.source import Span


def made(m: Machine, func: FuncV, kwargs: dict[str, Value], span: Span) -> Value | None:
    """``@pipeline_def(exec_dynamic=False)``, and then ``images(files, batch_size=8)``."""
    if decorators.chosen(m.project, func.function, dali.MAKES_PIPELINES) is None:
        return None
    row = models.find_function("nvidia.dali.Pipeline")
    assert row is not None, "it stands in the table of DALI"
    return effects.apply(m, *row, None, [], _options(m, func) | kwargs, span)


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
