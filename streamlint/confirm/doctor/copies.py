"""Copies and calls that seem to synchronize: what blocks the host, and what is complete on return."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final

from streamlint.confirm.doctor.axiom import (
    ORDERED,
    RETURNS,
    UNORDERED,
    WAITS,
    Axiom,
    Basis,
    Group,
)
from streamlint.confirm.doctor.lab import (
    LARGE,
    LATER,
    NEW,
    OLD,
    SMALL,
    Lab,
    Race,
    host_byte,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.confirm.doctor.axiom import Measure

_G, _M, _O = Basis.GUARANTEED, Basis.MEASURED, Basis.OBSERVED

RELEASED: Final = "source released on return"
NOT_RELEASED: Final = "source not released"
COMPLETE: Final = "complete on return"
INCOMPLETE: Final = "not complete on return"

# ----------------------------------------------------------------------------- copies


def source(make: Callable[[Lab], int]) -> Measure:
    """Overwrite the source of an asynchronous copy as soon as the call has returned."""

    def measure(lab: Lab) -> str:
        stream, data, host = lab.non_blocking(), lab.device(), make(lab)
        ctypes.memset(host, NEW, SMALL)
        lab.hold(stream)
        lab.copy(data, host, stream)
        ctypes.memset(host, LATER, SMALL)
        lab.let_go()
        return RELEASED if lab.byte(data) == NEW else NOT_RELEASED

    return measure


def pinned_destination(lab: Lab) -> str:
    stream, data, host = lab.non_blocking(), lab.device(value=NEW), lab.pinned(value=OLD)
    lab.hold(stream)
    lab.copy(host, data, stream)
    seen = host_byte(host)
    lab.let_go()
    return COMPLETE if seen == NEW else INCOMPLETE


def staged_destination(lab: Lab) -> str:
    """Another stream reads the destination after the call has returned."""
    race = Race.of(lab)
    first, second, host = lab.non_blocking(), lab.non_blocking(), lab.pageable(value=NEW)
    lab.hold(first)
    lab.copy(race.data, host, first)
    return race.read(second)


def large_from_pageable(lab: Lab) -> str:
    stream, data, host = lab.non_blocking(), lab.device(LARGE), lab.pageable(LARGE)
    return lab.waits(lambda: lab.copy(data, host, stream, LARGE), busy=stream)


def into_pageable(size: int) -> Measure:
    def measure(lab: Lab) -> str:
        stream, data, host = lab.non_blocking(), lab.device(size), lab.pageable(size)
        return lab.waits(lambda: lab.copy(host, data, stream, size), busy=stream)

    return measure


def host_to_host(lab: Lab) -> str:
    stream, target, host = lab.non_blocking(), lab.pageable(), lab.pageable()
    return lab.waits(lambda: lab.copy(target, host, stream), busy=stream)


def blocking_copy_to_host(lab: Lab) -> str:
    """A blocking stream is to write what is copied: the copy must wait for it, and then be done."""
    stream, data, host = lab.blocking(), lab.device(), lab.pageable()
    lab.hold_for_a_while(stream)
    lab.fill(data, NEW, stream)
    lab.call("cuMemcpyDtoH_v2", host, data, SMALL)
    seen = host_byte(host)
    lab.let_go()
    return COMPLETE if seen == NEW else INCOMPLETE


def blocking_copy_from_pinned(lab: Lab) -> str:
    stream, data, host = lab.blocking(), lab.device(), lab.pinned(value=NEW)
    waited = lab.waits(lambda: lab.call("cuMemcpyHtoD_v2", data, host, SMALL), busy=stream)
    ctypes.memset(host, LATER, SMALL)
    return COMPLETE if waited == WAITS and lab.byte(data) == NEW else INCOMPLETE


def blocking_copy_ignores(lab: Lab) -> str:
    stream, data, host = lab.non_blocking(), lab.device(), lab.pageable()
    return lab.waits(lambda: lab.call("cuMemcpyDtoH_v2", host, data, SMALL), busy=stream)


def released_by_blocking_copy(lab: Lab) -> str:
    data, host = lab.device(), lab.pageable(value=NEW)
    lab.call("cuMemcpyHtoD_v2", data, host, SMALL)
    ctypes.memset(host, LATER, SMALL)
    return RELEASED if lab.byte(data) == NEW else NOT_RELEASED


def between_blocking_streams(lab: Lab) -> str:
    race = Race.of(lab)
    first, second = lab.blocking(), lab.blocking()
    target, host = lab.pageable(), lab.pageable()
    race.write_soon(first)
    lab.call("cuMemcpy", target, host, SMALL)
    return race.read(second)


def device_copy(lab: Lab) -> str:
    stream, data, other = lab.blocking(), lab.device(), lab.device()
    return lab.waits(lambda: lab.call("cuMemcpyDtoD_v2", other, data, SMALL), busy=stream)


def device_fill(lab: Lab) -> str:
    stream, data = lab.blocking(), lab.device()
    return lab.waits(lambda: lab.call("cuMemsetD8_v2", data, 0, SMALL), busy=stream)


def fill_of_pinned(make: Callable[[Lab], int]) -> Measure:
    def measure(lab: Lab) -> str:
        stream, host = make(lab), lab.pinned()
        return lab.waits(lambda: lab.call("cuMemsetD8_v2", host, 0, SMALL), busy=stream)

    return measure


_PINNED = "cudaMemcpyAsync, pinned, either way"
_STAGED = "cudaMemcpyAsync from pageable memory, up to about 1 MB"
_INTO_PAGEABLE = "cudaMemcpyAsync into pageable memory"
_BLOCKING = "cudaMemcpy to the host, or from pinned memory"
_FROM_PAGEABLE = "cudaMemcpy from pageable memory"
_ON_DEVICE = "cudaMemcpy on the device, cudaMemset of device memory"
_OF_PINNED = "cudaMemset of pinned host memory"

COPIES: Final = Group(
    "Copies and the host",
    (
        Axiom(_PINNED, NOT_RELEASED, _G, source(Lab.pinned), "to the device"),
        Axiom(_PINNED, INCOMPLETE, _G, pinned_destination, "to the host"),
        Axiom(_STAGED, RELEASED, _M, source(Lab.pageable), "64 KB"),
        Axiom(_STAGED, UNORDERED, _M, staged_destination, "then a read on another stream"),
        Axiom("cudaMemcpyAsync from pageable memory, 4 MB and more", WAITS, _O, large_from_pageable, "8 MB"),
        Axiom(_INTO_PAGEABLE, WAITS, _O, into_pageable(SMALL), "64 KB"),
        Axiom(_INTO_PAGEABLE, WAITS, _O, into_pageable(LARGE), "8 MB"),
        Axiom("cudaMemcpyAsync from host to host", WAITS, _O, host_to_host),
        Axiom(_BLOCKING, COMPLETE, _G, blocking_copy_to_host, "to the host, a blocking stream busy"),
        Axiom(_BLOCKING, COMPLETE, _G, blocking_copy_from_pinned, "from pinned, a blocking stream busy"),
        Axiom(_BLOCKING, RETURNS, _G, blocking_copy_ignores, "a non-blocking stream busy"),
        Axiom(_FROM_PAGEABLE, RELEASED, _G, released_by_blocking_copy, "64 KB"),
        Axiom(
            "cudaMemcpy from host to host, between two blocking streams",
            ORDERED,
            _M,
            between_blocking_streams,
        ),
        Axiom(_ON_DEVICE, RETURNS, _G, device_copy, "copy"),
        Axiom(_ON_DEVICE, RETURNS, _G, device_fill, "memset"),
        Axiom(_OF_PINNED, WAITS, _M, fill_of_pinned(Lab.blocking), "a blocking stream busy"),
        Axiom(_OF_PINNED, RETURNS, _M, fill_of_pinned(Lab.non_blocking), "a non-blocking stream busy"),
    ),
)

# ----------------------------------------------------------------------------- other calls


def behind_work(prepare: Callable[[Lab, int], Callable[[], object]]) -> Measure:
    """Whether the call that ``prepare`` makes waits for a non-blocking stream (its argument)."""

    def measure(lab: Lab) -> str:
        stream = lab.non_blocking()
        return lab.waits(prepare(lab, stream), busy=stream)

    return measure


def _free(lab: Lab, stream: int) -> Callable[[], object]:
    del stream
    block = lab.made("cuMemAlloc_v2", SMALL)
    return lambda: lab.call("cuMemFree_v2", block)


def _free_host(lab: Lab, stream: int) -> Callable[[], object]:
    del stream
    block = lab.made("cuMemHostAlloc", SMALL, 0)
    return lambda: lab.call("cuMemFreeHost", block)


def _unregister(lab: Lab, stream: int) -> Callable[[], object]:
    del stream
    block = lab.pageable(LARGE)
    lab.call("cuMemHostRegister_v2", block, LARGE, 0)
    return lambda: lab.call("cuMemHostUnregister", block)


def _free_of_pooled(lab: Lab, stream: int) -> Callable[[], object]:
    block = lab.made("cuMemAllocAsync", SMALL, stream)
    lab.call("cuStreamSynchronize", stream)
    return lambda: lab.call("cuMemFree_v2", block)


def _free_async(lab: Lab, stream: int) -> Callable[[], object]:
    block = lab.made("cuMemAllocAsync", SMALL, stream)
    lab.call("cuStreamSynchronize", stream)
    return lambda: lab.call("cuMemFreeAsync", block, stream)


def _allocate(name: str, *arguments: int) -> Callable[[Lab, int], Callable[[], object]]:
    """Blocks are freed after the work is done: a free that waits would hide whether this call does."""
    free = "cuMemFreeHost" if name == "cuMemHostAlloc" else "cuMemFree_v2"

    def prepare(lab: Lab, stream: int) -> Callable[[], object]:
        del stream

        def call() -> None:
            block = lab.made(name, SMALL, *arguments)
            lab.after(lambda: lab.call(free, block))

        return call

    return prepare


def _allocate_async(lab: Lab, stream: int) -> Callable[[], object]:
    # As above, the pool has memory already.
    lab.call("cuMemFreeAsync", lab.made("cuMemAllocAsync", SMALL, stream), stream)
    lab.synchronize()

    def call() -> None:
        block = lab.made("cuMemAllocAsync", SMALL, stream)
        lab.after(lambda: lab.call("cuMemFree_v2", block))

    return call


def _register(lab: Lab, stream: int) -> Callable[[], object]:
    del stream
    block = lab.pageable(LARGE)

    def call() -> None:
        lab.call("cuMemHostRegister_v2", block, LARGE, 0)
        lab.after(lambda: lab.call("cuMemHostUnregister", block))

    return call


def _query(lab: Lab, stream: int) -> Callable[[], object]:
    return lambda: lab.code("cuStreamQuery", stream)


def _memory_info(lab: Lab, stream: int) -> Callable[[], object]:
    del stream
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    return lambda: lab.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))


def _new_stream(lab: Lab, stream: int) -> Callable[[], object]:
    del stream
    return lab.non_blocking


def _destroy_event(lab: Lab, stream: int) -> Callable[[], object]:
    event = lab.made("cuEventCreate", 2)

    def call() -> None:
        lab.record(stream, event)
        lab.call("cuEventDestroy_v2", event)

    return call


def destroy_stream(lab: Lab) -> str:
    stream = lab.made("cuStreamCreate", 1)
    return lab.waits(lambda: lab.call("cuStreamDestroy_v2", stream), busy=stream)


_WAITING = "cudaFree (of cudaMalloc), cudaFreeHost, cudaHostUnregister"
_AT_ONCE = "cudaMalloc, cudaMallocHost, cudaMallocAsync, cudaFreeAsync, cudaHostRegister"
_NEVER = "cudaGetLastError, cudaPeekAtLastError, cudaStreamQuery, cudaMemGetInfo, cudaStreamCreate"
_DESTROYS = "cudaEventDestroy, cudaStreamDestroy"

CALLS: Final = Group(
    "Calls that seem to synchronize",
    (
        Axiom(_WAITING, WAITS, _O, behind_work(_free), "cudaFree"),
        Axiom(_WAITING, WAITS, _O, behind_work(_free_host), "cudaFreeHost"),
        Axiom(_WAITING, WAITS, _O, behind_work(_unregister), "cudaHostUnregister"),
        Axiom("cudaFree of a pointer from cudaMallocAsync", RETURNS, _M, behind_work(_free_of_pooled)),
        Axiom(_AT_ONCE, RETURNS, _M, behind_work(_allocate("cuMemAlloc_v2")), "cudaMalloc"),
        Axiom(_AT_ONCE, RETURNS, _M, behind_work(_allocate("cuMemHostAlloc", 0)), "cudaMallocHost"),
        Axiom(_AT_ONCE, RETURNS, _M, behind_work(_allocate_async), "cudaMallocAsync"),
        Axiom(_AT_ONCE, RETURNS, _M, behind_work(_free_async), "cudaFreeAsync"),
        Axiom(_AT_ONCE, RETURNS, _M, behind_work(_register), "cudaHostRegister"),
        Axiom(_NEVER, RETURNS, _G, behind_work(_query), "cudaStreamQuery"),
        Axiom(_NEVER, RETURNS, _G, behind_work(_memory_info), "cudaMemGetInfo"),
        Axiom(_NEVER, RETURNS, _G, behind_work(_new_stream), "cudaStreamCreate"),
        Axiom(_DESTROYS, RETURNS, _G, behind_work(_destroy_event), "cudaEventDestroy"),
        Axiom(_DESTROYS, RETURNS, _G, destroy_stream, "cudaStreamDestroy"),
    ),
)
