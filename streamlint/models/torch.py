"""PyTorch: streams, events, and what tensor operators do to memory.

``torch.cuda.Stream()`` is non-blocking (measured: flags 1) and torch's default stream is the legacy
default stream. ``torch.accelerator``, ``torch.xpu`` and device-agnostic handles behave alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.models.schema import (
    Api,
    CurrentStream,
    DefaultStream,
    EnterCapture,
    EnterDevice,
    EnterStream,
    ForeignStream,
    Framework,
    GraphsCallables,
    HostWaitsDevice,
    HostWaitsEvent,
    HostWaitsStream,
    KeepsAlive,
    LaunchesGraph,
    Lib,
    NewEvent,
    NewGraph,
    NewStream,
    OrdersNothing,
    Pure,
    Queries,
    ReadsTimes,
    Records,
    Returns,
    SelectsDevice,
    Shares,
    StreamWaitsEvent,
    StreamWaitsStream,
)
from streamlint.trace import StreamKind

if TYPE_CHECKING:
    from collections.abc import Collection

_URL = "https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-streams"

TORCH = Framework(
    lib=Lib.TORCH,
    url=_URL,
    modules=(
        "torch.cuda",
        "torch._C",
        "torch.accelerator",
        "torch.xpu",
        "torch.npu",
        "torch.musa",
        "torch.mtia",
        "torch.cuda.streams",
        "torch.cuda.graphs",
        "torch_npu.npu",
        "torch",
    ),
    homes=(
        "torch.cuda",
        "torch.accelerator",
        "torch.xpu",
        "torch.npu",
        "torch.musa",
        "torch.mtia",
        "torch_npu.npu",
    ),
    functions=(
        Api("Stream", "device priority", (NewStream(StreamKind.NON_BLOCKING),)),
        Api("ExternalStream", "stream_ptr device", (ForeignStream("stream_ptr", null_is_new=True),)),
        Api("get_stream_from_external", "data_ptr device", (ForeignStream("data_ptr"),)),
        Api(
            "Event",
            "enable_timing blocking interprocess external",
            (NewEvent("enable_timing", timed=False),),
        ),
        # A kernel of Triton as an operator calls it: https://docs.pytorch.org/docs/stable/library.html
        Api("library.wrap_triton", "triton_kernel", (Returns("triton_kernel"),)),
        Api("multiprocessing.reductions.reduce_tensor", "tensor", (Shares("tensor"),)),
        Api("current_stream", "device", (CurrentStream(),)),
        Api("_cuda_getCurrentRawStream", "device", (CurrentStream(),)),
        Api("default_stream", "device", (DefaultStream(),)),
        Api("stream", "stream", (EnterStream(),)),
        Api("StreamContext", "stream", (EnterStream(),)),
        Api("set_stream", "stream", (EnterStream(now=True),)),
        Api("synchronize", "device", (HostWaitsDevice(),)),
        Api("device", "device", (EnterDevice(),)),
        Api("device_of", "obj", (EnterDevice("obj"),)),
        Api("device_index", "device", (EnterDevice(),)),
        Api("set_device", "device", (SelectsDevice(),)),
        Api("set_device_index", "device", (SelectsDevice(),)),
        Api("graph", "cuda_graph pool stream capture_error_mode", (EnterCapture(),)),
        Api("CUDAGraph", "keep_graph", (NewGraph(),)),
        Api(
            "make_graphed_callables",
            "callables sample_args num_warmup_iters allow_unused_input pool",
            (GraphsCallables("callables"),),
        ),
        Api("graph_pool_handle", "", (OrdersNothing(),)),
        Api("set_device_idx", "device", (SelectsDevice(),)),
        Api("use_mem_pool", "pool device", (Pure(),)),
        Api("current_accelerator", "check_available", (Pure(),)),
        Api("current_device_index", "", (Pure(),)),
        Api("current_device", "", (Pure(),)),
        Api("is_available", "", (Pure(),)),
        Api("is_initialized", "", (Pure(),)),
        Api("device_count", "", (Pure(),)),
        Api("get_device_capability", "device", (Pure(),)),
        Api("get_device_properties", "device", (Pure(),)),
        Api("get_device_name", "device", (Pure(),)),
        Api("is_current_stream_capturing", "", (Pure(),)),
        Api("empty_cache", "", (OrdersNothing(),)),
        Api("memory_allocated", "device", (OrdersNothing(),)),
        Api("mem_get_info", "device", (OrdersNothing(),)),
        Api("manual_seed", "seed", (Pure(),)),
        Api("manual_seed_all", "seed", (Pure(),)),
    ),
    stream_methods=(
        Api("wait_stream", "stream", (StreamWaitsStream(),)),
        Api("wait_event", "event", (StreamWaitsEvent("event", "self"),)),
        Api("record_event", "event", (Records("event", "self"),)),
        Api("synchronize", "", (HostWaitsStream(),)),
        Api("query", "", (Queries(),)),
    ),
    event_methods=(
        Api("record", "stream", (Records("self", "stream"),)),
        Api("wait", "stream", (StreamWaitsEvent("self", "stream"),)),
        Api("synchronize", "", (HostWaitsEvent(),)),
        Api("query", "", (Queries(),)),
        Api("elapsed_time", "end_event", (ReadsTimes("self", "end_event"),)),
        Api("ipc_handle", "", (Shares("self"),)),
    ),
    graph_methods=(
        Api("replay", "", (LaunchesGraph(stream=None),)),
        Api("instantiate", "", (Pure(),)),
        Api("enable_debug_mode", "", (Pure(),)),
        Api("debug_dump", "debug_path", (Pure(),)),
    ),
    buffer_methods=(
        Api("record_stream", "stream", (KeepsAlive(),)),
        Api("_share_cuda_", "", (Shares("self"),)),
    ),
    raw_handles=("cuda_stream", "cuda_event", "native_handle"),
)

MEMORY_SIGNALS = frozenset(
    {"write_value", "writevalue", "wait_value", "waitvalue", "wait_signal", "put_signal"}
)
"""Parts of names of calls that let one stream's work wait for a value in memory that another writes: an order
that is not visible as events (``stream_write_value32``, ``cuStreamWaitValue32``)."""

SHARED_MEMORY = "torch.distributed._symmetric_memory.rendezvous"
"""Gives memory of all ranks, whose ``barrier()`` is a kernel that sets flags at the others and waits for
theirs: what the streams of these ranks have waited for is behind it too."""

ASKS_FOR_CAPTURE = frozenset({"is_current_stream_capturing", "is_capturing"})
"""Functions that tell whether somebody captures what runs."""
ASKS_FOR_MODE = ASKS_FOR_CAPTURE | {"is_compiling", "is_dynamo_compiling", "is_scripting"}
"""Functions that mostly answer no: nothing is compiled, and nothing captured."""

MODULE_MAKERS = frozenset({"torch.get_device_module"})
"""Functions whose result stands for ``torch.cuda``: ``torch.get_device_module(device).current_stream()``."""

OTHER_ACCELERATORS = ("torch.xpu.", "torch.npu.", "torch.musa.", "torch.mtia.", "torch_npu.")
"""Where their streams and events are."""

GIVES_GPU = ("torch.cuda.current_device", "torch.cuda.device")

PLAIN_BASES = frozenset({"Module", "Dataset", "IterableDataset", "Function", "Optimizer"})
"""Classes to derive from that set no attribute to a stream."""

FALSE_ON_CUDA = ("torch.mps.is_available", "torch.hpu.is_available")
"""Calls with a known answer: accelerators without streams in this table are not there."""

USUALLY_FALSE = frozenset(f"{module}is_available" for module in OTHER_ACCELERATORS)
"""Whether one of the others is there, which is no question about CUDA: usually it is not."""

PUT_BY_OTHERS = frozenset({"npu", "musa", "hpu", "mlu"})
"""What ``torch`` has only where a package for another accelerator was installed."""

HANDLE_METHODS = frozenset(
    {
        "Stream",
        "Event",
        "current_stream",
        "default_stream",
        "set_stream",
        "ExternalStream",
        "CUDAGraph",
        "empty_cache",
    }
)
"""Names that only a device module has: on an unknown receiver they show it is one."""

ASYNC_COPY = "non_blocking"
"""The parameter of tensor methods that makes a copy run beside the host ..."""
ASYNC_BY_PLACE = frozenset({"copy_", "to", "cuda", "_foreach_copy_"})
"""... and those that take it by its place: ``page.copy_(x, True)``, as compilers write it."""
UNPINNED_LOADER = "DataLoader(pin_memory=False)"
LOADED_TO_HOST = "torch.load(map_location='cpu')"
ON_HOST = (UNPINNED_LOADER, LOADED_TO_HOST)
"""What is called so gives tensors in pageable memory."""

# ----------------------------------------------------------------------------- tensors

OPERATOR_MODULES = frozenset(
    {"torch", "torch.Tensor", "torch_npu", "torch.autograd"}
    | {
        f"torch.{name}"
        for name in "nn.functional nn.utils.rnn special linalg fft sparse nested masked testing".split()
    }
    | {"torch._inductor.select_algorithm.extern_kernels"}
)
"""Where PyTorch keeps its operators (https://docs.pytorch.org/docs/stable/torch.html and pages beside it).
A function of another module may work on anything: ``torch.serialization.location_tag(storage)``."""

INITIALIZERS = "torch.nn.init"
"""Its functions fill the tensor that they are given (https://docs.pytorch.org/docs/stable/nn.init.html)."""

OTHER_MODULES = (
    *("torch.nn.", "torch.optim.", "torch.utils.", "torch.profiler.", "torch.multiprocessing."),
    *("torch.jit.", "torch.library"),
)
"""Where it keeps layers and tools."""

WITHOUT_GRADIENTS = ("torch.no_grad", "torch.inference_mode")
GRADIENTS_OFF = frozenset(path.rpartition(".")[2] for path in WITHOUT_GRADIENTS)
"""Contexts, and decorators, in which no operand is kept for a backward pass."""
COMPILERS = (
    *("torch.compile", "torch.compiler", "torch.jit", "torch.export", "torch.fx", "torch._dynamo"),
    *("torch.func", "torch.vmap", "functorch", "torch.onnx", "torch._subclasses"),
)
"""What takes functions apart and runs them in another way, where waits may not be known."""
ATEN = "torch.ops.aten."
"""PyTorch's own operators as its dispatcher knows them, by name and overload
(https://docs.pytorch.org/docs/stable/torch.compiler_ir.html)."""
REGISTERED = ("torch.ops.", "torch.classes.")
"""Operators of extensions, and classes of theirs: what is called there works on the current stream."""
MAKES_NO_WAIT = frozenset(
    "step zero_grad add_param_group train eval requires_grad_ state_dict load_state_dict".split()
)
"""Methods that make no stream and no host wait (https://docs.pytorch.org/docs/stable/optim.html) ..."""
HAVE_SUCH = ("torch.optim.", "torch.nn.")
"""... of optimizers, schedulers and modules ..."""
READS_LOSSES = frozenset({"torch.optim.LBFGS"})
"""... but for a step that looks at what its closure gives."""
COPIES_EACH = "_foreach_copy_"
"""Copies each of several tensors into another, and takes ``non_blocking`` as ``copy_`` does."""
GIVES_SEVERAL = frozenset({"torch.autograd.grad", "torch.broadcast_tensors", "torch.meshgrid"})
"""Operators that give a tuple, which is true or false by its length."""
CALLS_WITH_STATE = frozenset({"torch.func.functional_call", "torch.nn.utils.stateless.functional_call"})
"""Calls of a module with the tensors of a dict in place of its own, which nobody keeps."""
JOINS_TENSORS = "torch._utils._flatten_dense_tensors"
"""One tensor of several, for a collective ..."""
PARTS_TENSORS = "torch._utils._unflatten_dense_tensors"
"""... and views of it, one for each of them."""

VIEW_METHODS = frozenset(
    "view view_as reshape_as squeeze unsqueeze expand expand_as permute transpose t mT swapaxes "
    "movedim detach narrow select unfold as_strided diagonal flatten ravel reshape squeeze_ "
    "unsqueeze_ detach_ requires_grad_ retain_grad alias real imag values indices unflatten swapdims "
    "view_as_real view_as_complex split chunk unbind tensor_split hsplit vsplit untyped_storage "
    "storage __dlpack__ share_memory_ as_subclass set_ rename refine_names".split()
)
"""Results share memory with the receiver (``reshape`` and ``flatten`` may copy; taken as views)."""

SPLIT_METHODS = frozenset("split chunk unbind tensor_split hsplit vsplit".split())

VIEW_ATTRIBUTES = frozenset("data T mT H mH real imag _data".split())
VIEWED = "_base"
"""What a tensor is a view of, and nothing for one that owns its memory."""

KEEPS_LAYOUT = frozenset(
    "data view view_as detach detach_ unsqueeze squeeze flatten ravel requires_grad_".split()
)
"""Of these, views of all elements in their order."""

KEEPS_FORM = frozenset("data detach detach_ alias requires_grad_ retain_grad real imag".split())
"""Of these, views of the same shape."""

TRANSPOSES = frozenset("t T mT H mH transpose permute movedim swapaxes swapdims".split())
"""Views whose elements stand in another order than in memory, mostly."""

GIVES_STORAGE = frozenset({"untyped_storage", "storage", "_typed_storage"})
STORAGE_SIZES = frozenset({"size", "_size", "nbytes", "__len__"})
"""Methods of a storage that tell how much memory it has."""

LAID_OUT_AS_OTHERS = ("_like", "empty_strided", "empty_permuted")
"""How names of factories end that lay out what they make as something else is laid out."""

META_ATTRIBUTES = frozenset(
    "shape dtype device ndim is_cuda is_cpu requires_grad layout itemsize nbytes names is_leaf "
    "grad_fn is_sparse is_quantized is_meta is_mps is_xpu is_npu output_nr _version strides offset "
    "mem".split()
)

FORM = frozenset("shape dtype ndim itemsize nbytes size dim numel nelement element_size ndimension".split())
"""What two tensors have alike that one call has made of the same."""

META_METHODS = frozenset(
    "size dim numel nelement element_size stride storage_offset is_contiguous is_pinned ndimension "
    "get_device type is_floating_point is_complex is_shared register_hook get_dtype dtype "
    "backward_hook is_set_to has_names is_signed __len__ register_post_accumulate_grad_hook "
    "is_inference is_conj is_neg stop_gradient".split()
)

ONLY_TENSORS_HAVE = frozenset(
    "record_stream copy_ clone contiguous detach numel element_size data_ptr is_contiguous zero_ fill_ "
    "add_ mul_ reshape index_select is_pinned pin_memory storage_offset untyped_storage index_copy_ "
    "masked_fill_".split()
)
"""Methods of tensors that numbers, modules, lists and host arrays lack: what has one is a tensor."""

MAKES_TENSOR = ONLY_TENSORS_HAVE - META_METHODS - {"record_stream", "data_ptr"}
"""Those that give a tensor."""

ONLY_MODULES_HAVE = frozenset(
    "parameters named_parameters buffers named_buffers named_modules eval "
    "register_forward_hook register_forward_pre_hook register_full_backward_hook".split()
)
"""Methods of ``torch.nn.Module`` that other classes hardly have: what has one is taken for a module."""
MODULE_METHODS = ONLY_MODULES_HAVE.union(
    "train state_dict load_state_dict modules children named_children zero_grad to_empty get_submodule "
    "get_parameter add_module forward".split()
)
"""Methods of ``torch.nn.Module`` that tensors do not have (https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)."""
FORWARD_HOOKS = frozenset({"register_forward_pre_hook", "register_forward_hook"})
BEHIND_BACKWARD = "register_full_backward_hook"
"""Of a module, when the gradients of what it was given are computed."""
REMOVES_HOOK = "remove"
"""Of the handle that registering a hook gives."""
MODULE_HOOKS = FORWARD_HOOKS | {BEHIND_BACKWARD}
GRADIENT_HOOKS = frozenset({"register_hook", "register_post_accumulate_grad_hook"})
"""Which methods register a function that runs when a module is called, or in a backward pass."""
OPTIMIZER_STEP = "step"
"""What an optimizer of ``torch.optim`` does with its parameters (https://docs.pytorch.org/docs/stable/optim.html)."""
CLEARS_GRADIENTS = "zero_grad"
OPTIMIZER_METHODS = frozenset({OPTIMIZER_STEP, CLEARS_GRADIENTS})
"""What has both is one: modules clear their gradients too, and other things take steps."""

SCALERS = frozenset(
    f"torch.{place}.GradScaler" for place in ("amp", "cuda.amp", "amp.grad_scaler", "cuda.amp.grad_scaler")
)
"""What scales losses: ``scaler.unscale_(optimizer)`` is no method of a tensor (https://docs.pytorch.org/docs/stable/amp.html)."""

RUNS_BACKWARD = "torch.autograd.backward"
"""What ``backward()`` of each of several tensors is
(https://docs.pytorch.org/docs/stable/generated/torch.autograd.backward.html)."""

SCALES_GRADIENTS = frozenset(
    f"torch.nn.utils.{module}{name}"
    for module in ("", "clip_grad.")
    for name in ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_")
)
"""Functions that read and write the gradients of the parameters they are given
(https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)."""

MODULE_LISTINGS = {
    "parameters": ("parameters", False),
    "named_parameters": ("parameters", True),
    "buffers": ("buffers", False),
    "named_buffers": ("buffers", True),
}
"""Methods of a module that list what it owns: what they list, and whether with names."""
MODULE_PARTS = {"get_parameter": "parameters", "get_buffer": "buffers"}
"""Methods that give one of it by its name."""
PARAMETERS_OF_MODULE = MODULE_PARTS["get_parameter"]
TENSORS_OF_MODULE = frozenset(MODULE_PARTS.values())
"""The listings that have the tensors of a module."""
GIVES_OF_MODULE = MODULE_LISTINGS.keys() | MODULE_PARTS.keys()

MODULE_CONTAINERS = {
    "torch.nn.ModuleList": "list",
    "torch.nn.ParameterList": "list",
    "torch.nn.ModuleDict": "dict",
    "torch.nn.ParameterDict": "dict",
}
"""Modules that are lists or dicts of others, by what they are like
(https://docs.pytorch.org/docs/stable/nn.html#containers)."""
MODULE_TREE = {"children": False, "named_children": True, "modules": False, "named_modules": True}
"""Methods of a module that list the modules in it, and whether with names."""
OF_ALL_DEPTHS = frozenset({"modules", "named_modules"})
"""Those that list the module itself, and what is in its parts."""

SEQUENCE = "torch.nn.Sequential"
"""The one that calls what it holds, one after the other."""
MODULE = "torch.nn.Module"
"""What all of them are."""

CALLED = ("__call__", "forward")
"""What runs where an object is called."""

MODULE_STATE = "state_dict"
"""Gives what a module owns, by name."""

FILLS_MODULE = frozenset({"load_state_dict"})
"""Methods of a module that copy into what it owns."""

MODULE_RETURNS_SELF = frozenset(
    "eval train to cuda cpu half float bfloat16 double type requires_grad_ to_empty apply".split()
)
"""Methods of a module that return the module."""
MOVES_MODULE = frozenset({"to", "cuda", "cpu"})
"""Those that move its parameters and buffers, each of which gets other memory."""

MODULE_RUNS_NOTHING = (MODULE_METHODS | MODULE_RETURNS_SELF) - {CALLED[-1]}
"""Methods of a module that do not call it, nor any hook of one that is in it."""

PRODUCTS = frozenset(
    ["operator @"]
    + "matmul mm bmm mv addmm addmv addbmm baddbmm einsum tensordot linear bilinear".split()
    + [f"conv{of}{n}d" for of in ("", "_transpose") for n in (1, 2, 3)]
    + ["scaled_dot_product_attention"]
)
"""Operators that multiply matrices: all their tensors are on one device, and none of them is a number."""

CONCATENATES = frozenset({"cat", "concat", "concatenate", "stack", "vstack", "hstack"})
"""Operators that take tensors of one place only; others mix in numbers that a tensor of the host holds."""

HOST_READ_METHODS = frozenset(
    "item tolist __bool__ __int__ __float__ __array__ __repr__ __index__ __format__".split()
)
"""Bring values to Python: on a device tensor they wait for the current stream only (measured)."""

DRAINING_METHODS = frozenset(
    "nonzero unique unique_consecutive masked_select bincount equal allclose assert_close".split()
)
"""Operators with a result size or a Python result that depends on the data: they drain the current stream."""

MASKS = frozenset(
    "bool eq ne lt le gt ge greater less greater_equal less_equal not_equal isin isnan isinf isfinite "
    "isclose logical_and logical_or logical_not logical_xor".split()
)
"""Operators whose results are truth values."""


def size_depends_on_data(name: str, operands: Collection[object], keywords: Collection[str]) -> bool:
    """Whether the size of a result depends on the data: the host waits for the current stream to know it.

    ``repeat_interleave`` with a tensor of repeats reads their sum back, if not told the ``output_size``.
    """
    if name == "repeat_interleave":
        return bool(operands) and "output_size" not in keywords
    return name in DRAINING_METHODS


FROM_PYTHON = frozenset({"tensor", "as_tensor"})
"""``torch.tensor([1], device="cuda")`` waits for the current stream (measured): it is done on return."""

FACTORIES = frozenset(
    "empty zeros ones full rand randn randint randperm arange linspace logspace eye tensor as_tensor "
    "empty_strided empty_permuted scalar_tensor from_file range tril_indices triu_indices "
    "bartlett_window blackman_window hamming_window hann_window kaiser_window".split()
)
TYPED = frozenset(
    f"{kind}Tensor" for kind in "Float Double Half BFloat16 Byte Char Short Int Long Bool".split()
)
"""``torch.LongTensor([1])`` is on the host, and ``torch.cuda.LongTensor([1])`` on a device
(https://docs.pytorch.org/docs/stable/tensors.html)."""
COMPILED_FACTORY = "torch._C._dynamo.guards._empty_strided_cuda"
COMPILED_VIEW = "torch._C._dynamo.guards._reinterpret_tensor"
"""What code that ``torch.compile`` has written calls: memory of the current device, and a view of some."""
LIKE_FACTORIES = frozenset(
    "empty_like zeros_like ones_like full_like rand_like randn_like randint_like".split()
)
DRAWS_INDICES = frozenset({"randint", "randperm"})
"""Factories of numbers that may be any in a range."""
SIZED = frozenset({"empty", "zeros", "ones", "rand", "randn"})
"""Factories whose plain arguments are the sizes."""
NEW_METHODS = frozenset("new_empty new_zeros new_ones new_full new_tensor new_empty_strided".split())
OVERWRITES = frozenset("zero_ fill_ uniform_ normal_ random_".split())
"""Methods that write a tensor and do not read it."""
UNFILLED = frozenset("empty empty_like new_empty empty_strided new_empty_strided empty_permuted".split())

SET_DEFAULT_DEVICE = "torch.set_default_device"
DEFAULT_DEVICE = "torch.get_default_device"
DEVICE = "torch.device"

PURE_FUNCTIONS = frozenset(
    "device dtype Size is_tensor is_storage is_grad_enabled set_grad_enabled no_grad enable_grad "
    "inference_mode get_default_dtype set_default_dtype finfo iinfo manual_seed Generator compile "
    "is_inference_mode_enabled is_autocast_enabled get_autocast_gpu_dtype autocast strided "
    "contiguous_format preserve_format channels_last iscomplex is_floating_point is_complex numel "
    "typename broadcast_shapes set_num_threads get_num_threads promote_types result_type can_cast "
    "use_deterministic_algorithms record_function".split()
)

GIVES_NO_TENSOR = frozenset({"load", "compile", "save", "stack_trace", "get_rng_state"})
"""Functions of ``torch`` that give something else than what is computed from what they are given."""
