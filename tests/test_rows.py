"""Every row of every table against the installed library: the call exists, its parameters are those of
the row, in their order, and the defaults are what the effects take them for.

A library that is not installed, or that cannot be imported without a GPU, is skipped: CONTRIBUTING.md
says how to install them. None needs a GPU to be looked at.
"""

from __future__ import annotations

import warnings
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING

import pytest

from streamlint import models
from streamlint.models import cuda_runtime
from streamlint.models import schema as fx
from streamlint.models.schema import Api, Framework, Lib, Role
from tests import signatures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.signatures import Signature

HOLDERS: dict[tuple[Lib, Role], tuple[str, ...]] = {
    (Lib.TORCH, Role.STREAM): ("torch.cuda.Stream",),
    (Lib.TORCH, Role.EVENT): ("torch.cuda.Event",),
    (Lib.TORCH, Role.BUFFER): ("torch.Tensor",),
    (Lib.CUPY, Role.STREAM): ("cupy.cuda.Stream",),
    (Lib.CUPY, Role.EVENT): ("cupy.cuda.Event",),
    (Lib.TORCH, Role.GRAPH): ("torch.cuda.CUDAGraph",),
    (Lib.CUPY, Role.GRAPH): ("cupy.cuda.graph.Graph",),
    (Lib.CORE, Role.GRAPH): ("cuda.core.graph.Graph",),
    (Lib.CUPY, Role.BUFFER): ("cupy.ndarray", "cupy.cuda.MemoryPointer"),
    (Lib.CUPY, Role.DEVICE): ("cupy.cuda.Device",),
    (Lib.NUMBA, Role.STREAM): ("numba.cuda.cudadrv.driver.Stream",),
    (Lib.NUMBA, Role.EVENT): ("numba.cuda.cudadrv.driver.Event",),
    (Lib.NUMBA, Role.BUFFER): ("numba.cuda.cudadrv.devicearray.DeviceNDArray",),
    (Lib.CORE, Role.STREAM): ("cuda.core.Stream", "cuda.core.graph.GraphBuilder"),
    (Lib.CORE, Role.EVENT): ("cuda.core.Event",),
    (Lib.CORE, Role.BUFFER): ("cuda.core.Buffer",),
    (Lib.CORE, Role.DEVICE): ("cuda.core.Device",),
    (Lib.DISTRIBUTED, Role.EVENT): ("torch.distributed.Work",),
    (Lib.PYCUDA, Role.STREAM): ("pycuda.driver.Stream",),
    (Lib.PYCUDA, Role.EVENT): ("pycuda.driver.Event",),
    (Lib.PYCUDA, Role.BUFFER): ("pycuda.gpuarray.GPUArray", "pycuda.driver.DeviceAllocation"),
    (Lib.PYCUDA, Role.DEVICE): ("pycuda.driver.Device", "pycuda.driver.Context"),
    (Lib.WARP, Role.STREAM): ("warp.Stream",),
    (Lib.WARP, Role.EVENT): ("warp.Event",),
    (Lib.WARP, Role.BUFFER): ("warp.array",),
    (Lib.RMM, Role.STREAM): ("rmm.pylibrmm.stream.Stream",),
    (Lib.RMM, Role.BUFFER): ("rmm.DeviceBuffer",),
    (Lib.KVIKIO, Role.EVENT): ("kvikio.cufile.IOFuture", "kvikio.cufile.IOFutureStream"),
    (Lib.TENSORRT, Role.OBJECT): ("tensorrt.IExecutionContext", "tensorrt.ICudaEngine"),
}
"""The classes whose methods the rows of a role are."""


@cache
def unavailable(module: str) -> str | None:
    """Why a library cannot be looked at here; None if it can."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return None if signatures.find(module) is not None else "not installed"
    except Exception as error:
        return f"cannot be imported here: {type(error).__name__}: {error}"


def resolve(framework: Framework, role: Role | None, api: Api) -> object | None:
    """The call that a row is about, in the first module or class of the library that has it."""
    holders = framework.modules if role is None else HOLDERS[framework.lib, role]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return next((o for h in holders if (o := signatures.find(f"{h}.{api.name}")) is not None), None)


def rows(framework: Framework) -> Iterator[tuple[Role | None, Api]]:
    yield from ((None, api) for api in framework.functions)
    for role in Role:
        yield from ((role, api) for api in models.methods_of(framework, role))


ROWS = [
    pytest.param(
        framework, role, api, id=f"{framework.lib.value}-{role.value if role else 'call'}-{api.name}"
    )
    for framework in models.FRAMEWORKS
    for role, api in rows(framework)
]


@pytest.mark.parametrize(("framework", "role", "api"), ROWS)
def test_the_row_is_that_of_the_installed_library(framework: Framework, role: Role | None, api: Api) -> None:
    why = unavailable(framework.modules[0])
    if why is not None:
        pytest.skip(f"{framework.modules[0]}: {why}")
    call = resolve(framework, role, api)
    assert call is not None, f"{framework.lib.value} has no {api.name}"
    if api.attribute:
        return
    assert callable(call), f"{api.name} is read, not called"
    known = signatures.signature(call)
    if known is None or (known.open and not known.parameters):
        return  # A C extension that does not tell: its name is all that can be compared.
    wrong = [text for params in (api.params, *api.older) if (text := differs(params, known)) is not None]
    assert len(wrong) <= len(api.older), wrong[0]
    if not wrong:
        compare_defaults(api, known)


def differs(params: str, known: Signature) -> str | None:
    """What is wrong with a row's parameters; None if they are those of the signature, in place."""
    given = tuple(takewhile(lambda name: not name.startswith("*"), params.split()))
    in_place = tuple(name for name in given if name not in known.names or not known[name].keyword)
    missing = [name for name in in_place if name not in known.names]
    if missing and not known.open:
        return f"the row has {missing}, the call takes {known.names}"
    shown = in_place[: len(known.positional)] if known.open else in_place
    if shown != known.positional[: len(shown)]:
        return f"the row has {in_place}, the call takes {known.positional}"
    return None


FALSE = frozenset({"None", "False", "0", "NULL"})
TRUE = frozenset({"True", "1"})


def compare_defaults(api: Api, known: Signature) -> None:
    """What a parameter that is not given means to an effect, it means to the library."""
    for effect in api.effects:
        for name, accepted in assumed(effect):
            default = known[name].default if name in known.names else None
            # A default stream of the library shows as `<rmm.pylibrmm.stream.Stream object at ...>`.
            known_value = default is not None and not default.startswith("<")
            assert not known_value or default in accepted, f"{api.name}: {name}={default}"


def assumed(effect: fx.Effect) -> Iterator[tuple[str, frozenset[str]]]:
    """Parameters of an effect, and the defaults that it takes them to have."""
    match effect:
        case fx.Copies(unless=unless, unless_false=unless_false):
            yield from ((name, FALSE) for name in (unless,) if name)
            yield from ((name, TRUE) for name in (unless_false,) if name)
        case fx.NewStream(flag=flag, null=null):
            yield from ((name, FALSE) for name in (flag, null) if name and "." not in name)
        case fx.NewEvent(timing=timing, untimed=untimed, timed=timed):
            yield from ((name, TRUE if timed else FALSE) for name in (timing,) if name)
            yield from ((name, FALSE) for name in (untimed,) if name)
        case fx.Communicates(flag=str() as flag):
            yield flag, FALSE
        case _:
            pass
    stream = getattr(effect, "stream", None)
    if isinstance(stream, str):
        yield stream, FALSE


@pytest.mark.parametrize("name", sorted(cuda_runtime.CONSTANTS))
def test_constants_of_the_runtime(name: str) -> None:
    where = "cuda.bindings.driver" if name.startswith("CU_") else "cuda.bindings.runtime"
    why = unavailable(where)
    if why is not None:
        pytest.skip(f"{where}: {why}")
    module = signatures.find(where)
    enums = [one for one in vars(module).values() if isinstance(one, type) and hasattr(one, name)]
    value = getattr(module, name, getattr(enums[0], name) if enums else None)
    assert value is not None, f"there is no {name}"
    assert int(value) == cuda_runtime.CONSTANTS[name]


STREAMS = [
    pytest.param(framework, name, id=f"{framework.lib.value}-{name}")
    for framework in models.FRAMEWORKS
    for name, _ in framework.streams
]


@pytest.mark.parametrize(("framework", "name"), STREAMS)
def test_default_streams_exist(framework: Framework, name: str) -> None:
    why = unavailable(framework.modules[0])
    if why is not None:
        pytest.skip(f"{framework.modules[0]}: {why}")
    assert any(signatures.find(f"{module}.{name}") is not None for module in framework.modules)


# ----------------------------------------------------------------------------- the comparison itself


@pytest.mark.parametrize(
    ("text", "names", "keyword"),
    [
        ("self, intptr_t dst, size_t size, int kind=0", ("dst", "size", "kind"), ()),
        (
            "a, stream=None, order='C', out=None, *, blocking=True",
            ("a", "stream", "order", "out", "blocking"),
            ("blocking",),
        ),
        ("size: int | tuple[int, ...] = (1, 2), *args", ("size",), ()),
        ("", (), ()),
    ],
)
def test_documented_signatures_are_read(text: str, names: tuple[str, ...], keyword: tuple[str, ...]) -> None:
    read = signatures.parse(text)
    assert read.names == names
    assert tuple(one.name for one in read.parameters if one.keyword) == keyword


@pytest.mark.parametrize(
    ("params", "right"),
    [
        ("dst src stream", True),
        ("dst src", True),
        ("dst source", False),
        ("src dst", False),
        ("dst src kind stream", False),
    ],
)
def test_a_row_that_differs_is_found(params: str, right: bool) -> None:
    known = signatures.parse("dst, src, *, stream=None")
    assert (differs(params, known) is None) is right
