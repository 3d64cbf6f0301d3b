"""Calls of functions of libraries, by their dotted names: those with a row, and families that work alike."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from streamlint import models
from streamlint.interp.facts import decorators, environment
from streamlint.interp.library import (
    arrays,
    configured,
    effects,
    escape,
    host_arrays,
    operations,
    operators,
    unresolved,
)
from streamlint.interp.python import builtin, foreign_wrappers, kinds, module_containers, trees
from streamlint.interp.state import symbols
from streamlint.interp.state.values import ApiV, FuncV, MethodV, SymV, Value, symbol_of
from streamlint.models import host, vocabulary
from streamlint.models import torch as torch_model
from streamlint.models.schema import Lib

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def call(m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    last = path.rpartition(".")[2]
    if path in torch_model.MODULE_MAKERS:
        return ApiV("torch.cuda")
    if path == "torch.is_tensor" and len(args) == 1:
        return kinds.isinstance_of(m, [*args, ApiV("torch.Tensor")])
    if path in host.GENERATORS:
        return ApiV(host.GENERATORS[path])
    if path == configured.LAUNCH:
        return _launched(m, args[0], args[1], args[2:], kwargs, span)
    if path in torch_model.USUALLY_FALSE:
        return SymV(symbols.call(path))
    if (variable := environment.read(m, path, args, kwargs, span)) is not None:
        return variable
    row = models.find_function(path)
    if row is not None and path != "torch.device":
        framework, api = row
        return effects.apply(m, framework, api, None, args, kwargs, span)
    made = (
        module_containers.made(m, path, args, kwargs, span)
        or trees.of_function(m, path, args, kwargs, span)
        or builtin.call(m, path, args, kwargs, span)
    )
    if made is not None:
        return made
    if path.startswith("torch.Tensor.") and args:
        # A method that is taken from the class: partial(torch.Tensor.to, device="cpu", non_blocking=True).
        return m.python.call(m, MethodV(args[0], last), args[1:], kwargs, span)
    if path.startswith(("torch.", "torch_npu.")):
        return operators.torch_function(m, path, args, kwargs, span)
    if path.startswith(("cupy.", "cupyx.")):
        return arrays.cupy_function(m, path, args, kwargs, span)
    if path.startswith("numba.cuda."):
        made = arrays.numba_function(m, path, args, span)
        if made is not None:
            return made
    family = models.find_operation(path)
    if family is not None:
        return operations.run(m, family, path, args, kwargs, span)
    if last in host.FROM_ADDRESS:
        return host_arrays.view(m, "numpy.frombuffer", args, kwargs, span)
    if last.startswith("cu") and path.startswith("cuda."):
        return unresolved.unknown_runtime_call(m, path, args, span)
    of_python = path.partition(".")[0] in sys.stdlib_module_names
    if last in vocabulary.HOST_WAITS and not of_python:
        # platform.synchronize() of a package that is not in sight: it may wait for any of them.
        escape.barrier(m, escape.all_streams(m), span, path)
    made = unresolved.opaque(m, path, args, kwargs, span, of_python=of_python)
    m.makers[symbol_of(made)] = path
    foreign_wrappers.note(m, made, path, args)
    return made


def _launched(
    m: Machine, kernel: Value, configuration: Value, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    """``kernel[grid](x)`` of Triton and of Numba, or of another package that is called in this way."""
    match kernel:
        case FuncV(function) if decorators.kernel_of(m.project, function) is Lib.TORCH:
            return arrays.launch_triton(m, kernel, args, kwargs, span)
        case ApiV(path) if not configured.is_launch(m, kernel, args):
            return unresolved.opaque(m, path, args, kwargs, span)
        case _:
            return arrays.launch(m, kernel, configuration, [*args, *kwargs.values()], span)
