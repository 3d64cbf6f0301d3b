"""numpy, ctypes and builtins: how the host reads, writes and views memory.

Views of pinned memory are how Python touches it: ``np.ctypeslib.as_array``, ``np.frombuffer``,
``(c_float * n).from_address(ptr)``. None of them reads; using the view does.
"""

from __future__ import annotations

from streamlint.trace import MonitorKind

VIEW_FUNCTIONS = frozenset(
    "numpy.frombuffer numpy.asarray numpy.ascontiguousarray numpy.asanyarray "
    "numpy.ctypeslib.as_array numpy.from_dlpack numpy.ndarray numpy.ravel numpy.reshape "
    "numpy.squeeze numpy.atleast_1d memoryview ctypes.cast ctypes.pointer ctypes.byref "
    "ctypes.addressof torch.from_numpy torch.as_tensor torch.frombuffer "
    "torch.utils.dlpack.from_dlpack torch.from_dlpack torch.utils.dlpack.to_dlpack torch.to_dlpack "
    "numpy.broadcast_to numpy.lib.stride_tricks.as_strided".split()
)
"""Return another view of the memory of their first argument that is a buffer."""

TAKES_CAPSULE = "from_dlpack"
"""What each library calls its function that takes memory by DLPack: https://data-apis.org/array-api/latest/"""

_OF_OBJECTS = frozenset({"ctypes.byref", "ctypes.pointer", "ctypes.addressof"})
GIVES_ADDRESS = _OF_OBJECTS | {"ctypes.cast"}
OF_HOST_MEMORY = _OF_OBJECTS | {"torch.from_numpy"}
"""Of these, views of what is on the host: ``byref(c_int())``. A cast may be of any address."""

ADDRESS_TYPE = "ctypes.c_void_p"
"""A cast to it is an address as before; one to a pointer to numbers is read by ``[0]`` or ``contents``."""

VALUES_OF_CTYPES = frozenset({"value", "raw"})
"""Attributes of an object of ctypes that read its memory, and write it where something is assigned.

https://docs.python.org/3/library/ctypes.html#ctypes.create_string_buffer
"""

FLAT_VIEW_FUNCTIONS = frozenset({"numpy.frombuffer", "numpy.ctypeslib.as_array", "memoryview"})
"""Views with one axis, so that ``view[0]`` reads a number."""

ALLOCATORS = frozenset(
    "numpy.empty numpy.zeros numpy.ones numpy.full numpy.arange numpy.array numpy.linspace "
    "numpy.empty_like numpy.zeros_like numpy.ones_like numpy.full_like bytearray numpy.random.rand "
    "numpy.random.randn numpy.random.random".split()
)

TAKES_VALUES = frozenset({"array", "bytearray"})
"""Of these, those that copy what they are given."""

MEMORY_FUNCTIONS: dict[str, tuple[int | None, int | None]] = {
    "numpy.copyto": (0, 1),
    "ctypes.memmove": (0, 1),
    "ctypes.memset": (0, None),
    "numpy.put": (0, 2),
    "ctypes.string_at": (None, 0),
    "ctypes.wstring_at": (None, 0),
}
"""Functions that write argument ``i`` and read argument ``j``; without ``i`` they return what they read.

They go by addresses, too: https://docs.python.org/3/library/ctypes.html#utility-functions
"""

GENERATORS = {
    f"{module}.{name}": module
    for module in ("numpy.random", "cupy.random")
    for name in ("default_rng", "RandomState", "Generator")
}
"""What makes an object whose methods are the functions of a module, with a state of their own.

https://numpy.org/doc/stable/reference/random/legacy.html, https://docs.cupy.dev/en/stable/reference/random.html
"""

READ_BUILTINS = frozenset(
    "float int bool complex str repr list tuple set sorted sum max min any all print bytes format "
    "abs round hash dict map filter".split()
)
"""Builtins that look at the values of a host array or tensor."""

FROM_ADDRESS = frozenset({"from_address", "from_buffer"})
"""Methods of ctypes' types that give an object over memory that exists: ``(c_ubyte * n).from_address(p)``."""

ARRAY_VIEW_ATTRIBUTES = FROM_ADDRESS | frozenset(
    "T real imag flat data ctypes __array_interface__ contents newbyteorder flatten_view base".split()
)
ARRAY_VIEWS = ARRAY_VIEW_ATTRIBUTES | frozenset(
    "reshape view ravel squeeze transpose swapaxes data_as".split()
)
"""Methods and attributes of a host array that give another view (or the address) of it."""

UFUNC_INPUTS = {
    **dict.fromkeys(
        "negative positive absolute fabs rint sign conj exp exp2 log log2 log10 expm1 log1p sqrt square "
        "cbrt reciprocal sin cos tan arcsin arccos arctan sinh cosh tanh floor ceil trunc invert "
        "logical_not isnan isinf isfinite".split(),
        1,
    ),
    **dict.fromkeys(
        "add subtract multiply divide true_divide floor_divide remainder mod fmod power float_power "
        "maximum minimum fmax fmin hypot arctan2 bitwise_and bitwise_or bitwise_xor left_shift right_shift "
        "logical_and logical_or logical_xor greater greater_equal less less_equal equal not_equal "
        "copysign matmul".split(),
        2,
    ),
}
"""How many arguments a universal function of NumPy reads: one more is where it writes."""

ARRAY_COPIES = frozenset({"copy", "astype"})
"""Methods of a host array that give another one."""

VIEWED_BY = ("buffer", "obj", "a")
"""How NumPy's functions call the memory of which they give a view."""

ARRAY_META = frozenset("shape dtype size ndim nbytes itemsize strides flags setflags __len__ _obj".split())

ARRAY_WRITES = frozenset("fill sort put itemset partition resize".split())

ENUMERATIONS = frozenset({"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"})
"""Classes of ``enum`` whose variables are members: https://docs.python.org/3/library/enum.html"""

FLAGS = frozenset({"Flag", "IntFlag"})
"""Those whose members are bits."""
AUTOMATIC = "enum.auto"

MONITORS = {
    "threading.Lock": MonitorKind.LOCK,
    "threading.RLock": MonitorKind.LOCK,
    "threading.Event": MonitorKind.FLAG,
    "threading.Semaphore": MonitorKind.SEMAPHORE,
    "threading.BoundedSemaphore": MonitorKind.SEMAPHORE,
    "threading.Condition": MonitorKind.CONDITION,
    "concurrent.futures.Future": MonitorKind.FLAG,
}
"""Objects at which host threads wait for each other."""

WAIT_FOR_OTHERS = ("threading.", "multiprocessing.", "concurrent.futures.", "asyncio.", "time.sleep")
"""What of Python's own library makes a thread wait for what others do: semaphores, barriers, polling."""

IMPORTS = frozenset({"importlib.import_module", "__import__"})
"""``np = importlib.import_module("numpy")`` is ``import numpy as np``."""

QUEUES = frozenset(
    {"queue.Queue", "queue.SimpleQueue", "queue.LifoQueue", "asyncio.Queue", "asyncio.LifoQueue"}
)
COUNTS_OF_QUEUES = frozenset({"task_done", "join", "qsize", "empty", "full"})
"""What asks how much is in a queue, or is about what is done: it touches nothing that is in it."""

SIGNALS = {
    MonitorKind.LOCK: frozenset({"release"}),
    MonitorKind.SEMAPHORE: frozenset({"release"}),
    MonitorKind.FLAG: frozenset({"set", "set_result", "set_exception"}),
    MonitorKind.QUEUE: frozenset({"put", "put_nowait"}),
    MonitorKind.TASKS: frozenset({"task_done"}),
    MonitorKind.CONDITION: frozenset({"notify", "notify_all"}),
}
ASKS_FLAG = "is_set"
"""The method of ``threading.Event`` that asks whether somebody has set it: nobody has when it is made."""
WAITS = {
    MonitorKind.LOCK: frozenset({"acquire"}),
    MonitorKind.SEMAPHORE: frozenset({"acquire"}),
    MonitorKind.FLAG: frozenset({"wait", "result", "exception"}),
    MonitorKind.QUEUE: frozenset({"get"}),
    MonitorKind.TASKS: frozenset({"join"}),
    MonitorKind.CONDITION: frozenset({"wait", "wait_for"}),
}

RAISES_IN_TIME = frozenset({"result", "exception", "get", "get_nowait"})
"""Waits that raise where their time is over: ``queue.get(timeout=1)``. What comes behind one, has waited."""

BYTES = frozenset(f"ctypes.c_{name}" for name in ("byte", "ubyte", "char", "int8", "uint8"))
"""Types of ctypes of one byte each: an array of ``n`` has ``n`` bytes."""

PROTOTYPE = "ctypes.CFUNCTYPE()"
"""What ``CFUNCTYPE(None, c_void_p)`` gives: called with a function, it makes an object that C can call."""

ADDRESS_OF_CALLBACK = frozenset({"value", "_ptr"})
OF_CALLBACK = ADDRESS_OF_CALLBACK | {"contents"}
"""Attributes of what ``cast(callback, c_void_p)`` gives: its address, and the object itself."""

PROTOTYPE_MAKERS = frozenset({"ctypes.CFUNCTYPE", "ctypes.WINFUNCTYPE", "ctypes.PYFUNCTYPE"})

KEEPS_ITS_OBJECT = frozenset({"ctypes.cast", "ctypes.pointer", "ctypes.byref"})
"""Views whose result holds a reference to the object; an address does not."""

TRANSPARENT = frozenset(
    "ctypes.c_void_p ctypes.py_object "
    "ctypes.c_uint64 ctypes.c_size_t ctypes.c_longlong ctypes.POINTER weakref.proxy "
    "copy.copy".split()
)
"""Wrappers that stand for what they wrap: ``c_void_p(address)``."""

HOLDS_ADDRESS = frozenset(f"numpy.{name}" for name in "uint64 uintp ulonglong int64 intp longlong".split())
"""Numbers of NumPy's that an address fits in: ``kernel(grid, block, (np.uint64(pointer), np.int32(n)))``."""

MAKE_CLASSES = frozenset(
    {"collections.namedtuple", "typing.NamedTuple", "dataclasses.make_dataclass", "enum.Enum"}
)
"""Functions whose result is a class of which objects keep what they are given."""

MAPS_TREES = {
    **dict.fromkeys(
        ("torch.utils._pytree.tree_map", "torch.utils._pytree.tree_map_", "optree.tree_map"), (0, 1)
    ),
    **dict.fromkeys(("torch.utils._pytree.tree_map_only", "torch.utils._pytree.tree_map_only_"), (1, 2)),
    **dict.fromkeys(
        (
            "lightning_utilities.core.apply_func.apply_to_collection",
            "lightning_utilities.apply_to_collection",
            "pytorch_lightning.utilities.apply_func.apply_to_collection",
        ),
        (2, 0),
    ),
    "accelerate.utils.recursively_apply": (0, 1),
}
"""Functions that call one for each tensor in lists and tables: where they take the function, and these."""

MAPPED_BY, MAPPED = ("func", "fn", "function", "f"), ("tree", "pytree", "data", "tensor")
"""The same by name."""

REPLACES_FIELDS = frozenset({"dataclasses.replace", "copy.replace", "attr.evolve", "attrs.evolve"})
"""Functions that give another object with the fields of one, but for those that are named."""

COPIES = frozenset({"copy.copy", "copy.deepcopy"})
"""Functions that give another object with parts of the same names."""

MAKES_FIELDS = frozenset({"define", "s", "frozen"})
"""Decorators of attrs beside ``dataclass`` by which the declarations of a class are its fields ..."""
HAVE_FIELDS = frozenset({"NamedTuple", "BaseModel", "Struct"})
"""... and bases of Python, pydantic and msgspec."""

SAYS_TYPE = frozenset({"typing.cast", "typing_extensions.cast"})
"""Calls whose result is their second argument: ``cast(torch.cuda.Stream, s)`` is ``s``."""

FILLS = frozenset({"readinto", "readinto1", "recv_into", "recvfrom_into", "readinto_nowait"})
"""Methods of files and sockets that write into the memory that they are given."""

HANDOFF_METHODS = frozenset(
    "append appendleft add put put_nowait push register insert extend send submit update set store "
    "emit log debug info warning error critical exception write setdefault discard remove enqueue "
    "publish notify observe track save_for_backward mark_dirty mark_non_differentiable "
    "set_materialize_grads add_scalar register_buffer register_parameter register_hook isinstance "
    "issubclass id type len hasattr callable super getattr zip enumerate iter next reversed "
    "dataclass replace weakref set_result record_function nvtx range_push range_pop mark annotate "
    "tree_flatten tree_unflatten clear items keys popitem".split()
)
"""Names of calls that keep a value or look at its type, and do not read device memory."""
