"""The form of a framework's table: rows of calls with their parameters and effects."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from streamlint.frozen import Enumeration, frozen

if TYPE_CHECKING:
    from streamlint.models.schema import Effect
    from streamlint.trace import StreamKind


class Lib(Enumeration):
    """Libraries that keep a current stream (or name streams explicitly) on their own."""

    TORCH = "torch"
    CUPY = "cupy"
    NUMBA = "numba"
    RUNTIME = "cuda runtime"
    DRIVER = "cuda driver"
    CORE = "cuda.core"
    DISTRIBUTED = "torch.distributed"
    FUNCTIONAL = "functional collectives"
    PYCUDA = "pycuda"
    WARP = "warp"
    RMM = "rmm"
    KVIKIO = "kvikio"
    TENSORRT = "tensorrt"
    MPI = "mpi4py"
    UCX = "UCX"
    MOONCAKE = "Mooncake"
    DEEPNVME = "DeepNVMe"
    ONNX = "ONNX Runtime"
    CUDF = "pylibcudf"
    NVMATH = "nvmath"
    NIXL = "NIXL"
    DALI = "DALI"
    NCCL = "NCCL"
    CUFINUFFT = "cufinufft"
    OPENCV = "OpenCV"
    DEEP_EP = "DeepEP"
    RAFT = "RAFT"
    CUVS = "cuVS"
    NVSHMEM = "NVSHMEM"
    JAX = "JAX"

    @property
    def product(self) -> str:
        """Its name in messages. The parts of cuda-python are one: each call is told its stream."""
        match self:
            case Lib.TORCH | Lib.DISTRIBUTED | Lib.FUNCTIONAL:
                return "PyTorch"
            case Lib.CUPY:
                return "CuPy"
            case Lib.NUMBA:
                return "Numba"
            case Lib.RUNTIME | Lib.DRIVER | Lib.CORE:
                return "cuda-python"
            case Lib.PYCUDA:
                return "PyCUDA"
            case Lib.WARP:
                return "Warp"
            case Lib.KVIKIO:
                return "KvikIO"
            case Lib.TENSORRT:
                return "TensorRT"
            case _:
                return str(self.value)


class Role(Enumeration):
    """What kind of object a method belongs to."""

    STREAM = "stream"
    EVENT = "event"
    GRAPH = "graph"
    BUFFER = "buffer"
    DEVICE = "device"
    OBJECT = "object"
    """Anything else that the name of a method shows: an execution context of TensorRT."""


@frozen()
class Api:
    """One call. ``params`` as in its signature, without defaults: ``"dst src count kind stream *args"``.

    Names and order are those of the library, so that calls by keyword are understood;
    ``tests/test_rows.py`` compares them with what is installed. A call returns what its last
    returning effect says. With ``status`` the result comes as the tuple ``(error, value)`` of
    cuda-python.
    """

    name: str
    params: str
    effects: tuple[Effect, ...]
    status: bool = False
    telling: tuple[str, ...] | None = None
    """If not None, a method name that shows what an unknown receiver is: always if empty, else when
    one of these keywords is given (``x.copy_to(y, stream=s)``)."""
    attribute: bool = False
    """Read as an attribute, not called: ``device.default_stream``."""
    further: int = 0
    """With ``status``: how many values come after the first one, as the pitch does in ``cudaMallocPitch``."""
    older: tuple[str, ...] = ()
    """``params`` in other releases; the one with as many parameters as the call has arguments is taken."""
    overloads: tuple[str, ...] = ()
    """``params`` of other forms of the call, which the types of its arguments tell apart."""

    def has(self, *kinds: type[Effect]) -> bool:
        """Whether it has an effect of one of these kinds."""
        return any(isinstance(effect, kinds) for effect in self.effects)

    @property
    def names(self) -> tuple[str, ...]:
        """Parameters that stand in place; ``rest`` takes what follows them."""
        return _in_place(self.params)

    def names_of(self, count: int) -> tuple[str, ...]:
        """The parameters that ``count`` arguments in place stand for."""
        for params in (self.params, *self.older):
            if len(_in_place(params)) == count:
                return _in_place(params)
        return self.names

    @property
    def rest(self) -> str | None:
        return next((name[1:] for name in self.params.split() if name.startswith("*")), None)


def _in_place(params: str) -> tuple[str, ...]:
    """What follows ``*args`` is given by keyword only."""
    return tuple(takewhile(lambda name: not name.startswith("*"), params.split()))


def status_call(
    name: str, params: str, *effects: Effect, further: int = 0, older: tuple[str, ...] = ()
) -> Api:
    """A row of cuda-python: every call returns a tuple, led by its status."""
    return Api(name, params, effects, status=True, further=further, older=older)


@frozen()
class Framework:
    """One library: its modules, functions and the methods of its streams, events, graphs and buffers."""

    lib: Lib
    url: str
    """Documentation that the rows rest on."""
    modules: tuple[str, ...]
    """Import paths that hold the functions; the first is canonical."""
    functions: tuple[Api, ...]
    homes: tuple[str, ...] = ()
    """Those of the modules that have all functions for streams; the first alone, if none are named."""
    stream_methods: tuple[Api, ...] = ()
    event_methods: tuple[Api, ...] = ()
    graph_methods: tuple[Api, ...] = ()
    buffer_methods: tuple[Api, ...] = ()
    device_methods: tuple[Api, ...] = ()
    object_methods: tuple[Api, ...] = ()
    streams: tuple[tuple[str, StreamKind], ...] = ()
    """Names that are default streams: ``Stream.null``."""
    told_with: tuple[str, ...] = ()
    """Of these imports one is needed for names of methods to tell: ``comm.Send(x)`` without ``mpi4py``."""
    raw_handles: tuple[str, ...] = ()
    """Attributes of a stream or an event that give its raw handle."""
    operations: tuple[str, ...] = ()
    """Modules of which each function without a row reads the memory that it gets, and makes its result, in
    order of its parameter ``stream``; without one on the current stream."""
    waits_without_stream: bool = False
    """Whether the host waits for the device where work that computes is given no stream."""
    constants: tuple[tuple[str, int], ...] = ()
    """Members of enumerations that are numbers: ``CudaStreamFlags.NON_BLOCKING``."""
