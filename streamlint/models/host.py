"""numpy, ctypes and builtins: how the host reads, writes and views memory.

Views of pinned memory are how Python touches it: ``np.ctypeslib.as_array``, ``np.frombuffer``,
``(c_float * n).from_address(ptr)``. None of them reads; using the view does.
"""

from __future__ import annotations

from streamlint.trace import MonitorKind

SHAPED = frozenset(
    f"numpy.{name}"
    for name in (
        "expand_dims transpose swapaxes moveaxis rollaxis atleast_2d atleast_3d flip flipud fliplr rot90 "
        "diagonal real imag lib.stride_tricks.sliding_window_view"
    ).split()
)
"""Give a view of an array in another shape: https://numpy.org/doc/stable/reference/routines.array-manipulation.html"""

SPLITS = frozenset(f"numpy.{name}" for name in "split array_split hsplit vsplit dsplit".split())
"""Give several views: https://numpy.org/doc/stable/reference/generated/numpy.split.html"""

ASKS_FORM = frozenset(
    f"numpy.{name}"
    for name in (
        "shape size ndim result_type can_cast may_share_memory shares_memory iscomplexobj isrealobj isscalar "
        "byte_bounds lib.array_utils.byte_bounds"
    ).split()
)
"""Ask for the shape, type and place of an array, and not for its values."""

VIEW_FUNCTIONS = frozenset(
    "numpy.frombuffer numpy.asarray numpy.ascontiguousarray numpy.asanyarray "
    "numpy.ctypeslib.as_array numpy.from_dlpack numpy.ndarray numpy.ravel numpy.reshape "
    "numpy.squeeze numpy.atleast_1d memoryview ctypes.cast ctypes.pointer ctypes.byref "
    "ctypes.addressof torch.from_numpy torch.as_tensor torch.frombuffer "
    "torch.utils.dlpack.from_dlpack torch.from_dlpack torch.utils.dlpack.to_dlpack torch.to_dlpack "
    "numpy.broadcast_to numpy.lib.stride_tricks.as_strided numpy.ctypeslib.as_ctypes".split()
).union(SHAPED)
"""Return another view of the memory of their first argument that is a buffer."""

TAKES_CAPSULE = "from_dlpack"
"""What each library calls its function that takes memory by DLPack: https://data-apis.org/array-api/latest/"""

_OF_OBJECTS = frozenset({"ctypes.byref", "ctypes.pointer", "ctypes.addressof"})
GIVES_ADDRESS = _OF_OBJECTS | {"ctypes.cast"}
OF_HOST_MEMORY = _OF_OBJECTS | {"torch.from_numpy"}
"""Of these, views of what is on the host: ``byref(c_int())``. A cast may be of any address."""

ADDRESS_TYPE = "ctypes.c_void_p"
"""A cast to it is an address as before; one to a pointer to numbers is read by its index or ``contents``."""

ALLOCATORS = frozenset(
    "numpy.empty numpy.zeros numpy.ones numpy.full numpy.arange numpy.array numpy.linspace "
    "numpy.empty_like numpy.zeros_like numpy.ones_like numpy.full_like bytearray numpy.random.rand "
    "numpy.random.randn numpy.random.random".split()
)

CLASSES_OF_MEMORY = frozenset({"torch.Tensor", "numpy.ndarray", "cupy.ndarray"})
"""Classes of arrays, which none of Python's own is: a table of tensors is no tensor."""

MAKES_NUMBERS = frozenset(
    f"numpy.{name}"
    for name in (
        "eye identity tri logspace geomspace indices fromfunction fromfile fromstring fromiter loadtxt "
        "genfromtxt hanning hamming blackman bartlett kaiser fft.fftfreq fft.rfftfreq"
    ).split()
)
"""... and those that do so by a rule or from a file, whatever they are given:
https://numpy.org/doc/stable/reference/routines.array-creation.html, routines.window.html beside it"""

TAKES_VALUES = frozenset({"array", "bytearray"})
"""Of these, those that copy what they are given."""
MAY_COPY = frozenset({"numpy.array", "numpy.ma.array", "numpy.rec.array"})
"""... unless they are told not to: ``np.array(page, copy=False)``."""
TAKES_SIZES = frozenset({"rand", "randn"})
"""... and those that take each size by itself."""

MEMORY_FUNCTIONS: dict[str, tuple[int | None, int | None]] = {
    "numpy.copyto": (0, 1),
    "ctypes.memmove": (0, 1),
    "ctypes.memset": (0, None),
    "numpy.put": (0, 2),
    "numpy.place": (0, 2),
    "numpy.putmask": (0, 2),
    "numpy.fill_diagonal": (0, 1),
    "numpy.random.shuffle": (0, None),
    "ctypes.string_at": (None, 0),
    "ctypes.wstring_at": (None, 0),
}
"""Functions that write argument ``i`` and read argument ``j``; without ``i`` they return what they read.

They go by addresses, too: https://docs.python.org/3/library/ctypes.html#utility-functions
"""

MEMORY_KEYWORDS = {"numpy.copyto": ("dst", "src")}
"""Of these, what NumPy's documentation calls the arguments: ``np.copyto(dst=page, src=rows)``."""

AT_PLACES = ".at"
"""``np.add.at(page, rows, values)`` writes its first argument, as each universal function has it
(https://numpy.org/doc/stable/reference/generated/numpy.ufunc.at.html)."""

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
    "reshape view ravel squeeze transpose swapaxes diagonal data_as cast toreadonly".split()
)
"""Methods and attributes of a host array or a ``memoryview`` that give another view (or the address) of it.

https://docs.python.org/3/library/stdtypes.html#memoryview
"""

CTYPES_VALUES = frozenset({"value", "raw"})
"""What an object of ctypes is read and written by: https://docs.python.org/3/library/ctypes.html#fundamental-data-types"""

GIVES_ONE_AXIS = frozenset({"flat", "ravel", "flatten"})
TAKES_SHAPE = frozenset({"reshape", "view"})
ADDS_AXIS = frozenset({"unsqueeze"})
KEEPS_AXES = frozenset("newbyteorder toreadonly contiguous contents".split())
"""What views do with the number of axes, by a method or an attribute ..."""

VIEWS_IN_A_ROW = frozenset({"frombuffer", "ravel", "as_array"})
SHAPES_VIEW = frozenset("reshape broadcast_to as_strided as_array ndarray".split())
TAKES_SHAPE_FIRST = frozenset({"ndarray"})
GIVES_MORE_AXES = frozenset({"expand_dims"})
GIVES_FEWER_AXES = frozenset({"diagonal"})
CHANGES_AXES = frozenset("squeeze atleast_2d atleast_3d sliding_window_view".split())
HAS_AXES = frozenset({"memoryview"})
"""... and by a function; others keep it. A ``memoryview`` of more axes cannot be indexed by a number."""

COUNTS = frozenset("numel nelement nbytes itemsize element_size __len__".split())
"""Members of arrays and tensors that tell a number, and never a shape."""

UFUNC_INPUTS = {
    **dict.fromkeys(
        "negative positive absolute fabs rint sign conj exp exp2 log log2 log10 expm1 log1p sqrt square "
        "cbrt reciprocal sin cos tan arcsin arccos arctan sinh cosh tanh floor ceil trunc invert "
        "logical_not isnan isinf isfinite frexp modf".split(),
        1,
    ),
    "clip": 3,
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

LAST_COMES_FIRST, LEAST_COMES_FIRST = "LifoQueue", "PriorityQueue"
"""Queues that give what was put there last, or what is least."""
QUEUES = frozenset(
    f"{module}.{name}"
    for module in ("queue", "asyncio")
    for name in ("Queue", LAST_COMES_FIRST, LEAST_COMES_FIRST)
) | {"queue.SimpleQueue"}
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
READ_ENVIRONMENT = frozenset({"os.getenv", "os.environ.get"})
"""Functions that give what a variable of the environment has, or a default."""

NORMALIZE_TEXT = frozenset({"lower", "upper", "strip"})
"""Methods of a text that leave what it says: ``os.getenv("USE_CPU", "False").lower()``."""

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

FILLS = frozenset(
    "readinto readinto1 recv_into recvfrom_into readinto_nowait recvmsg_into sock_recv_into recv_bytes_into "
    "readv preadv pack_into".split()
)
"""Methods of files, sockets, pipes and structs, and functions of ``os`` and ``struct``, that write into the
memory that they are given: https://docs.python.org/3/library/"""

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
