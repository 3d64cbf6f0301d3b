"""The tables of the frameworks: every row names parameters that it has and a call that exists.

Libraries that are not installed, or that cannot be imported without a GPU, are skipped.
"""

from __future__ import annotations

import importlib
import inspect
from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from streamlint import models
from streamlint.models import cuda_core, cuda_driver, cuda_runtime, schema
from streamlint.models import numba as numba_model
from streamlint.models.schema import Api, Effect, Framework, Lib, Role

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

IMPLIED = frozenset({"self", "current"})
"""Names that effects may use and that are no parameters: the receiver, and the current stream."""
OPTIONAL = frozenset({"device"})
"""Asked for where a row has it: most rows act on the current device."""
NO_PARAMETER = frozenset({"path", "kind", "flag_kind", "unset", "space", "makes"})
"""Fields of effects that name something else than a parameter."""


def rows(framework: Framework) -> Iterator[tuple[str, Api]]:
    yield from (("function", api) for api in framework.functions)
    for role in Role:
        yield from ((role.value, api) for api in models.methods_of(framework, role))


ROWS = [
    pytest.param(framework, api, id=f"{framework.lib.value}:{kind}:{api.name}")
    for framework in models.FRAMEWORKS
    for kind, api in rows(framework)
]


def named_parameters(effect: Effect) -> Iterator[str]:
    """The parameters that an effect refers to."""
    for field in fields(effect):
        value = getattr(effect, field.name)
        if field.name in NO_PARAMETER:
            continue
        for name in value if isinstance(value, tuple) else (value,):
            if isinstance(name, str):
                yield name.partition(".")[0]


@pytest.mark.parametrize(("framework", "api"), ROWS)
def test_effects_refer_to_parameters_of_their_row(framework: Framework, api: Api) -> None:
    known = {*api.names, *IMPLIED, *OPTIONAL}
    if api.rest is not None:
        known.add(api.rest)
    kept = {name for other in framework.functions for name in kept_by(other) if api.name.find("()") > 0}
    for effect in api.effects:
        unknown = set(named_parameters(effect)) - known - kept
        # Effects have defaults for the usual names: `Records` takes the current stream without `stream`.
        assert unknown <= {"stream", "event"}, f"{api.name} has no parameter {sorted(unknown)}"


def kept_by(api: Api) -> Iterator[str]:
    for effect in api.effects:
        if isinstance(effect, schema.Makes):
            yield from effect.keeps


@pytest.mark.parametrize("framework", models.FRAMEWORKS, ids=[f.lib.value for f in models.FRAMEWORKS])
def test_what_a_row_makes_has_rows(framework: Framework) -> None:
    """``Makes(path)`` is of use only if calling it or one of its methods is a row."""
    paths = {f"{module}.{api.name}" for module in framework.modules for api in framework.functions}
    elementwise = {"cupy.ElementwiseKernel()", "cupy.ReductionKernel()"}
    for _, api in rows(framework):
        for effect in api.effects:
            if isinstance(effect, schema.Makes) and not effect.keeps and effect.path not in elementwise:
                known = any(path == effect.path or path.startswith(f"{effect.path}.") for path in paths)
                assert known, f"nothing is known about {effect.path}"


def test_names_are_unique() -> None:
    for framework in models.FRAMEWORKS:
        listed = [(kind, api.name) for kind, api in rows(framework)]
        assert len(listed) == len(set(listed)), f"{framework.lib.value}: a row stands twice"


def test_telling_names_belong_to_one_kind_of_object() -> None:
    """A name that tells what an unknown receiver is must not mean different objects."""
    seen: dict[str, Role] = {}
    for framework in models.FRAMEWORKS:
        for role in Role:
            for api in models.methods_of(framework, role):
                if api.telling is not None:
                    assert seen.setdefault(api.name, role) is role


@pytest.mark.parametrize(
    ("name", "keywords", "found"),
    [
        ("copy_to_host", (), True),
        ("copy_to", (), False),
        ("copy_to", ("stream",), True),
        ("get", (), False),
        ("get", ("out", "blocking"), True),
        ("append", ("stream",), False),
    ],
)
def test_receivers_are_told_by_method_and_keyword(name: str, keywords: tuple[str, ...], found: bool) -> None:
    assert (models.find_telling(name, keywords) is not None) is found


# ----------------------------------------------------------------------------- against the libraries


def library(name: str) -> ModuleType:
    """A module, or a skip where it is not installed or needs a GPU to be imported."""
    try:
        return importlib.import_module(name)
    except Exception as error:  # a missing driver shows as any of several errors
        pytest.skip(f"{name} cannot be imported here: {error}")


def row_of(lib: Lib, kind: str, name: str) -> Api:
    return next(api for where, api in rows(models.BY_LIB[lib]) if where == kind and api.name == name)


BINDINGS = [
    pytest.param(framework.modules[0], api, id=api.name)
    for framework in (cuda_runtime.CUDA_RUNTIME, cuda_driver.CUDA_DRIVER)
    for api in framework.functions
]


@pytest.mark.parametrize(("module", "api"), BINDINGS)
def test_rows_of_cuda_python_exist(module: str, api: Api) -> None:
    function = getattr(library(module), api.name, None)
    assert callable(function), f"{module} has no {api.name}"
    signature = (function.__doc__ or "").partition("\n")[0]
    if signature.startswith(f"{api.name}("):
        given = [part for part in signature[len(api.name) + 1 :].partition(")")[0].split(",") if part.strip()]
        required = [part for part in given if "=" not in part]
        assert len(required) <= len(api.names) <= len(given), f"{signature}: the row has {api.names}"


@pytest.mark.parametrize("name", sorted(cuda_runtime.CONSTANTS))
def test_constants_of_the_runtime(name: str) -> None:
    module = library("cuda.bindings.driver" if name.startswith("CU_") else "cuda.bindings.runtime")
    enums = [one for one in vars(module).values() if isinstance(one, type) and hasattr(one, name)]
    value = getattr(module, name, getattr(enums[0], name) if enums else None)
    assert value is not None, f"there is no {name}"
    assert int(value) == cuda_runtime.CONSTANTS[name]


NUMBA_PLACES = {
    "stream": ("numba.cuda.cudadrv.driver", "Stream"),
    "event": ("numba.cuda.cudadrv.driver", "Event"),
    "buffer": ("numba.cuda.cudadrv.devicearray", "DeviceNDArray"),
}


@pytest.mark.parametrize(
    ("kind", "api"),
    [pytest.param(kind, api, id=api.name) for kind, api in rows(numba_model.NUMBA)],
)
def test_rows_of_numba_exist(kind: str, api: Api) -> None:
    cuda = library("numba.cuda")
    place, name = NUMBA_PLACES.get(kind, ("", ""))
    owner = getattr(library(place), name) if name else cuda
    function = getattr(owner, api.name, None)
    assert callable(function), f"{owner.__name__} has no {api.name}"
    check_order(function, api)


def check_order(function: object, api: Api) -> None:
    """Parameters that the row shares with the signature stand in the same order there."""
    try:
        names = [name for name in inspect.signature(function).parameters if name != "self"]  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return
    shared = [name for name in api.names if name in names]
    assert shared == [name for name in names if name in shared]


CORE_PLACES = {"stream": "Stream", "event": "Event", "buffer": "Buffer", "device": "Device"}
BUILDER_METHODS = frozenset({"begin_building", "end_building", "complete"})


@pytest.mark.parametrize(
    ("kind", "api"),
    [pytest.param(kind, api, id=f"{kind}:{api.name}") for kind, api in rows(cuda_core.CUDA_CORE)],
)
def test_rows_of_cuda_core_exist(kind: str, api: Api) -> None:
    core = library("cuda.core")
    owner: object = core
    path = api.name.replace("()", "")
    if kind == "graph":
        owner = library("cuda.core.graph").Graph
    elif kind in CORE_PLACES:
        owner = getattr(core, CORE_PLACES[kind])
        if api.name in BUILDER_METHODS:
            owner = library("cuda.core.graph").GraphBuilder
    for part in path.split("."):
        owner = getattr(owner, part, None)
        assert owner is not None, f"cuda.core has no {path}"
    assert callable(owner) or api.attribute


@pytest.mark.parametrize("name", [name for name, _ in cuda_core.CUDA_CORE.streams])
def test_default_streams_of_cuda_core_exist(name: str) -> None:
    assert hasattr(library("cuda.core"), name)
