"""What driver calls do not tell of CuPy.

Its pool hands parts of few driver allocations out, which a hook of CuPy's tells of. The functions that its
streams call on the host are Python's.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import cupy

from streamlint.confirm.gpu.handles import on_callback_thread
from streamlint.confirm.observe.threads import follow
from streamlint.trace import FreeKind, Space

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.confirm.observe.aside import Aside
    from streamlint.confirm.observe.host_functions import HostFunctions
    from streamlint.confirm.observe.recorder import Recorder


def install(recorder: Recorder, aside: Aside, functions: HostFunctions) -> None:
    """Trace the pool from now on, in this thread and in threads that are started later."""

    class Hook(cupy.cuda.MemoryHook):  # type: ignore[misc]
        name = "streamlint"

        # What the pool asks of the driver is not the program's.
        def alloc_preprocess(self, **_: Any) -> None:
            aside.enter()

        def alloc_postprocess(self, **_: Any) -> None:
            aside.leave()

        def malloc_postprocess(self, *, device_id: int, mem_size: int, mem_ptr: int, **_: Any) -> None:
            device = str(device_id)
            stream = recorder.stream(int(cupy.cuda.get_current_stream().ptr), device)
            if mem_ptr:
                recorder.born(mem_ptr, mem_size, Space.DEVICE, device, stream)

        def free_postprocess(self, *, mem_ptr: int, **_: Any) -> None:
            recorder.died(mem_ptr, FreeKind.DROPPED, name="last reference")

    Hook().__enter__()
    follow(Hook)
    pool = cupy.get_default_pinned_memory_pool()

    def pinned(size: int) -> Any:
        with aside.told():
            inner = pool.malloc(size)
        return cupy.cuda.PinnedMemoryPointer(_Page(inner, size, recorder), 0)

    cupy.cuda.set_pinned_memory_allocator(pinned)
    streams = cupy.cuda.Stream.__base__
    for name in ("launch_host_func", "add_callback"):
        setattr(streams, name, _late(getattr(streams, name), functions))


def _late(method: Callable[..., Any], functions: HostFunctions) -> Callable[..., Any]:
    @functools.wraps(method)
    def queued(stream: Any, callback: Callable[..., Any], arg: Any) -> Any:
        try:
            return method(stream, functions.late(callback), arg)
        finally:
            functions.drop()

    return queued


class _Page:
    """A page of the pool of pinned memory, which hands pages out again, with its life told."""

    def __init__(self, inner: Any, size: int, recorder: Recorder) -> None:
        self._inner = inner
        self._recorder = recorder
        self.ptr, self.size = int(inner.ptr), size
        self._block = recorder.born(self.ptr, size, Space.PINNED, "cpu")

    def __del__(self) -> None:
        if on_callback_thread():
            # The stream had come to where the last reference was: its copies are done.
            self._recorder.forget_block(self._block)
        else:
            self._recorder.died(self.ptr, FreeKind.DROPPED, name="last reference")
