"""What the frameworks' calls mean, as tables; one module each."""

from __future__ import annotations

from streamlint.models.cuda_runtime import CUDA_RUNTIME
from streamlint.models.schema import Api, Framework, Lib, Role
from streamlint.models.torch import TORCH

FRAMEWORKS: tuple[Framework, ...] = (TORCH, CUDA_RUNTIME)


def _functions() -> dict[str, tuple[Framework, Api]]:
    return {
        f"{module}.{api.name}": (framework, api)
        for framework in FRAMEWORKS
        for module in framework.modules
        for api in framework.functions
    }


def _methods(role: Role) -> dict[tuple[Lib, str], tuple[Framework, Api]]:
    tables = {Role.STREAM: "stream_methods", Role.EVENT: "event_methods", Role.BUFFER: "buffer_methods"}
    return {
        (framework.lib, api.name): (framework, api)
        for framework in FRAMEWORKS
        for api in getattr(framework, tables[role])
    }


FUNCTIONS = _functions()
METHODS = {role: _methods(role) for role in Role}
MODULES = frozenset(module for framework in FRAMEWORKS for module in framework.modules)
BY_LIB = {framework.lib: framework for framework in FRAMEWORKS}


def find_function(path: str) -> tuple[Framework, Api] | None:
    """The row of a function by its dotted path, such as ``torch.cuda.current_stream``."""
    return FUNCTIONS.get(path)


def find_method(role: Role, lib: Lib | None, name: str) -> tuple[Framework, Api] | None:
    """The row of a method; with ``lib`` unknown the first framework that has it."""
    table = METHODS[role]
    if lib is not None:
        return table.get((lib, name))
    return next((row for (_, known), row in table.items() if known == name), None)
