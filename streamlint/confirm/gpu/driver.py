"""The few CUDA driver calls that confirm needs, through ctypes.

Going through the driver keeps one gate for all frameworks: torch, CuPy, Numba, cuda-python and
cuda.core all use the driver's primary contexts and stream handles.
"""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_SUCCESS = 0
_NO_SUCH_PARAMETER = 1
"""``CUDA_ERROR_INVALID_VALUE``: the kernel has fewer."""

NOT_READY = 600
"""``CUDA_ERROR_NOT_READY``, also of the runtime: an answer to a query, no failure."""


class DriverUnavailableError(Exception):
    """This machine has no usable CUDA driver or no GPU."""


class DriverError(Exception):
    """A driver call failed."""


class Driver:
    """The loaded driver.

    :raises DriverUnavailableError: from the constructor, where there is no driver or no GPU.
    """

    def __init__(self) -> None:
        try:
            # CDLL, not PyDLL: the GIL is released in each call, so host callbacks written in
            # Python can run while this thread waits.
            self._cuda: Any = ctypes.CDLL("libcuda.so.1")
        except OSError:
            raise DriverUnavailableError("no CUDA driver (libcuda.so.1) on this machine") from None
        code = self._cuda.cuInit(0)
        if code != _SUCCESS:
            raise DriverUnavailableError(f"the CUDA driver found no usable GPU (cuInit returned {code})")
        if self.device_count() == 0:
            raise DriverUnavailableError("the CUDA driver found no GPU")

    def call(self, name: str, *arguments: object) -> int:
        """The driver's own answer to a call: 0, or the code of an error."""
        return int(getattr(self._cuda, name)(*arguments))

    def must(self, name: str, *arguments: object) -> None:
        """:raises DriverError: the call fails."""
        code = self.call(name, *arguments)
        if code != _SUCCESS:
            raise DriverError(f"{name} returned {self.error_name(code)} ({code})")

    def error_name(self, code: int) -> str:
        text = ctypes.c_char_p()
        self._cuda.cuGetErrorName(code, ctypes.byref(text))
        return (text.value or b"unknown error").decode()

    def error_text(self, code: int) -> str:
        """What the driver and the libraries say of an error: "operation not permitted"."""
        text = ctypes.c_char_p()
        self._cuda.cuGetErrorString(code, ctypes.byref(text))
        return (text.value or b"").decode()

    def device_count(self) -> int:
        count = ctypes.c_int()
        self.must("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def device_name(self, device: int = 0) -> str:
        text = ctypes.create_string_buffer(128)
        self.must("cuDeviceGetName", text, 128, device)
        return text.value.decode()

    def version(self) -> str:
        number = ctypes.c_int()
        self.must("cuDriverGetVersion", ctypes.byref(number))
        return f"{number.value // 1000}.{number.value % 1000 // 10}"

    def activate(self, device: int = 0) -> None:
        """Make the primary context of ``device`` current: the one the runtime API uses as well."""
        context = ctypes.c_void_p()
        self.must("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.must("cuCtxSetCurrent", context)

    def ensure_context(self) -> None:
        """Give this thread a current context if it has none."""
        context = ctypes.c_void_p()
        self.must("cuCtxGetCurrent", ctypes.byref(context))
        if not context.value:
            self.activate()

    def knows(self, address: int) -> bool:
        """Whether the address is in memory that CUDA allocated or registered."""
        return self.rest_of_range(address) > 0 or self._is_pinned(address)

    def peek(self, address: int, most: int) -> bytes:
        """Up to ``most`` bytes from the address; none if the memory is gone. The device must be idle."""
        size = min(most, self.rest_of_range(address))
        if size > 0:
            content = ctypes.create_string_buffer(size)
            self.must("cuMemcpyDtoH_v2", content, ctypes.c_uint64(address), ctypes.c_size_t(size))
            return content.raw
        return ctypes.string_at(address, most) if self._is_pinned(address) else b""

    def poke(self, address: int, content: bytes) -> None:
        """Write the bytes to the address. The device must be idle."""
        self.must("cuMemcpyHtoD_v2", ctypes.c_uint64(address), content, ctypes.c_size_t(len(content)))
        self.synchronize()

    def rest_of_range(self, address: int) -> int:
        """Bytes from the address to the end of its device allocation; 0 if it is in none."""
        base, size = ctypes.c_uint64(), ctypes.c_size_t()
        arguments = (ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(address))
        if self._cuda.cuMemGetAddressRange_v2(*arguments) != _SUCCESS:
            return 0
        return base.value + size.value - address

    def is_pooled(self, address: int) -> bool:
        """Whether the address is in memory of a pool, as that of ``cudaMallocAsync``."""
        pool, its_pool = ctypes.c_void_p(), 17
        code = self._cuda.cuPointerGetAttribute(ctypes.byref(pool), its_pool, ctypes.c_uint64(address))
        return bool(code == _SUCCESS and pool.value)

    def _is_pinned(self, address: int) -> bool:
        kind, memory_type, host = ctypes.c_uint(), 2, 1
        code = self._cuda.cuPointerGetAttribute(ctypes.byref(kind), memory_type, ctypes.c_uint64(address))
        return bool(code == _SUCCESS and kind.value == host)

    def pinned_size(self, address: int) -> int:
        """Bytes of the pinned host allocation that the address is in; 0 if it is in none."""
        size, its_range = ctypes.c_size_t(), 12
        if not self._is_pinned(address):
            return 0
        code = self._cuda.cuPointerGetAttribute(ctypes.byref(size), its_range, ctypes.c_uint64(address))
        return size.value if code == _SUCCESS else 0

    def overwrite_pinned(self, size: int, count: int, value: int) -> None:
        """Set each byte of so many new pinned blocks, which are free again when this returns."""
        blocks = [ctypes.c_void_p() for _ in range(count)]
        for block in blocks:
            self.must("cuMemHostAlloc", ctypes.byref(block), ctypes.c_size_t(size), 0)
            ctypes.memset(block, value, size)
        for block in blocks:
            self.must("cuMemFreeHost", block)

    def synchronize(self) -> None:
        """Wait for every device on which this process has a primary context."""
        for device in self.active_devices():
            with self.on(device):
                self.must("cuCtxSynchronize")

    def trim_pools(self) -> None:
        """Give back what is free in the pools that ``cudaMallocAsync`` takes from, if the device has any."""
        for device in self.active_devices():
            pool = ctypes.c_void_p()
            if self.call("cuDeviceGetDefaultMemPool", ctypes.byref(pool), device) == _SUCCESS:
                self.call("cuMemPoolTrimTo", pool, ctypes.c_size_t(0))

    def elsewhere(self) -> Iterator[int]:
        """The other devices on which this process has a primary context; each is current in its turn."""
        current = ctypes.c_void_p()
        self.must("cuCtxGetCurrent", ctypes.byref(current))
        for device in self.active_devices():
            with self.on(device) as context:
                if context.value != current.value:
                    yield device

    def active_devices(self) -> list[int]:
        """Those on which this process has a primary context."""
        found = []
        for device in range(self.device_count()):
            flags, active = ctypes.c_uint(), ctypes.c_int()
            self.must("cuDevicePrimaryCtxGetState", device, ctypes.byref(flags), ctypes.byref(active))
            if active.value:
                found.append(device)
        return found

    @contextmanager
    def on(self, device: int) -> Iterator[ctypes.c_void_p]:
        """With the primary context of the device."""
        context = ctypes.c_void_p()
        self.must("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        try:
            with self.pushed(context):
                yield context
        finally:
            self.must("cuDevicePrimaryCtxRelease_v2", device)

    @contextmanager
    def pushed(self, context: ctypes.c_void_p) -> Iterator[None]:
        self.must("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            popped = ctypes.c_void_p()
            self.must("cuCtxPopCurrent_v2", ctypes.byref(popped))

    def context_of(self, stream: int) -> ctypes.c_void_p:
        context = ctypes.c_void_p()
        self.must("cuStreamGetCtx", ctypes.c_void_p(stream), ctypes.byref(context))
        return context

    def is_capturing(self, stream: int) -> bool:
        """Whether what is queued there now runs at another time, or must not be queued."""
        status = ctypes.c_int()
        code = self.call("cuStreamIsCapturing", ctypes.c_void_p(stream), ctypes.byref(status))
        return code != _SUCCESS or status.value != 0

    def idle(self, stream: int) -> bool:
        """Whether all work of ``stream`` is done."""
        return self._ready("cuStreamQuery", ctypes.c_void_p(stream))

    def load(self, ptx: str, name: str) -> ctypes.c_void_p:
        """A kernel of the current context, compiled by the driver."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.must("cuModuleLoadData", ctypes.byref(module), ptx.encode() + b"\0")
        self.must("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def load_image(self, image: ctypes.Array[ctypes.c_char], *, library: bool) -> int:
        """A module or library with all of its kernels; 0 if it cannot be loaded."""
        handle, none = ctypes.c_void_p(), (None, None, 0)
        options = (*none, *none) if library else ()
        name = "cuLibraryLoadData" if library else "cuModuleLoadData"
        code = self.call(name, ctypes.byref(handle), image, *options)
        return handle.value or 0 if code == _SUCCESS else 0

    def parameter_sizes(self, function: int) -> list[int] | None:
        """Bytes of each parameter of a kernel; ``None`` where the driver is too old to tell."""
        for name in ("cuFuncGetParamInfo", "cuKernelGetParamInfo"):  # a launch takes handles of both kinds
            sizes: list[int] = []
            if not hasattr(self._cuda, name):
                return None
            offset, size = ctypes.c_size_t(), ctypes.c_size_t()
            out = ctypes.byref(offset), ctypes.byref(size)
            while (
                code := self.call(name, ctypes.c_void_p(function), ctypes.c_size_t(len(sizes)), *out)
            ) == _SUCCESS:
                sizes.append(size.value)
            if code == _NO_SUCH_PARAMETER:
                return sizes
        return None

    def range_of(self, address: int) -> tuple[int, int, bool] | None:
        """Begin and size of the allocation that the address is in, and whether it is pinned memory."""
        if self._is_pinned(address):
            start, its_start = ctypes.c_uint64(), 11
            code = self.call(
                "cuPointerGetAttribute", ctypes.byref(start), its_start, ctypes.c_uint64(address)
            )
            size = self.pinned_size(address)
            return (start.value, size, True) if code == _SUCCESS and size else None
        base, size_there = ctypes.c_uint64(), ctypes.c_size_t()
        out = ctypes.byref(base), ctypes.byref(size_there)
        found = self.call("cuMemGetAddressRange_v2", *out, ctypes.c_uint64(address)) == _SUCCESS
        return (base.value, size_there.value, False) if found and size_there.value else None

    def fetch(self, address: int, size: int, stream: int) -> bytes:
        """Bytes of the device, read on a stream."""
        content = ctypes.create_string_buffer(size)
        where = (content, ctypes.c_uint64(address), ctypes.c_size_t(size), ctypes.c_void_p(stream))
        self.must("cuMemcpyDtoHAsync_v2", *where)
        self.must("cuStreamSynchronize", ctypes.c_void_p(stream))
        return content.raw

    def put(self, address: int, content: bytes, stream: int) -> None:
        """Write bytes to the device on a stream."""
        where = (ctypes.c_uint64(address), content, ctypes.c_size_t(len(content)), ctypes.c_void_p(stream))
        self.must("cuMemcpyHtoDAsync_v2", *where)
        self.must("cuStreamSynchronize", ctypes.c_void_p(stream))

    def copy(self, destination: int, source: int, size: int, stream: int) -> None:
        ends = ctypes.c_uint64(destination), ctypes.c_uint64(source)
        self.must("cuMemcpyAsync", *ends, ctypes.c_size_t(size), ctypes.c_void_p(stream))

    def run_graph(self, graph: int, stream: int) -> None:
        self.must("cuGraphLaunch", ctypes.c_void_p(graph), ctypes.c_void_p(stream))

    def launch(self, function: ctypes.c_void_p, stream: int, arguments: tuple[int, ...]) -> None:
        """One thread, with 64-bit integer arguments."""
        values = [ctypes.c_uint64(a) for a in arguments]
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        handle = ctypes.c_void_p(stream)
        self.must("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, handle, pointers, None)

    def mapped_word(self) -> tuple[ctypes.c_uint32, int]:
        """A zeroed 32-bit word of pinned memory, and its address on the device."""
        host, device = ctypes.c_void_p(), ctypes.c_uint64()
        portable_and_mapped = 1 | 2
        self.must("cuMemHostAlloc", ctypes.byref(host), 4, portable_and_mapped)
        self.must("cuMemHostGetDevicePointer_v2", ctypes.byref(device), host, 0)
        word = ctypes.c_uint32.from_address(host.value or 0)
        word.value = 0
        return word, device.value

    def new_stream(self) -> int:
        """A stream that no other is ordered with."""
        stream, non_blocking = ctypes.c_void_p(), 1
        self.must("cuStreamCreate", ctypes.byref(stream), non_blocking)
        return stream.value or 0

    def allocated(self, size: int) -> int:
        """Memory of its own, as that of ``cudaMalloc``; it is never freed."""
        address = ctypes.c_uint64()
        self.must("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def fill(self, address: int, size: int, value: int) -> None:
        """Set each byte, before the call returns."""
        self.must("cuMemsetD8_v2", ctypes.c_uint64(address), ctypes.c_ubyte(value), ctypes.c_size_t(size))
        self.synchronize()

    def overwritten(self, size: int, stream: int, value: int) -> int:
        """Memory of the pool, allocated on the stream and filled there; it is never freed."""
        address = ctypes.c_uint64()
        self.must("cuMemAllocAsync", ctypes.byref(address), ctypes.c_size_t(size), ctypes.c_void_p(stream))
        fill = (address, ctypes.c_ubyte(value), ctypes.c_size_t(size), ctypes.c_void_p(stream))
        self.must("cuMemsetD8Async", *fill)
        return address.value

    def record(self, stream: int) -> ctypes.c_void_p:
        """A new event at the tail of ``stream``."""
        event = ctypes.c_void_p()
        without_timing = 2
        self.must("cuEventCreate", ctypes.byref(event), without_timing)
        self.must("cuEventRecord", event, ctypes.c_void_p(stream))
        return event

    def done(self, event: ctypes.c_void_p) -> bool:
        return self._ready("cuEventQuery", event)

    def _ready(self, name: str, handle: ctypes.c_void_p) -> bool:
        code = getattr(self._cuda, name)(handle)
        if code not in (_SUCCESS, NOT_READY):
            raise DriverError(f"{name} returned {self.error_name(code)} ({code})")
        return bool(code == _SUCCESS)
