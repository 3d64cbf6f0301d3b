"""RAPIDS memory manager: buffers whose allocation and free are ordered by a stream.

A ``Stream`` that it makes is *blocking* unless its flags say otherwise (``pylibrmm/stream.pyx``). Copies to
and from the host wait for the stream only if it is the default one (``pylibrmm/device_buffer.pyx``).
"""

from __future__ import annotations

from streamlint.models.schema import (
    Allocates,
    Api,
    Copies,
    Framework,
    Frees,
    HostWaitsStream,
    Lib,
    Makes,
    NewStream,
    Pure,
    Uses,
)
from streamlint.trace import Space, StreamKind

_POOL = "rmm.pylibrmm.cuda_stream_pool.CudaStreamPool()"
_POOLS = {
    "CudaAsyncMemoryResource": "initial_pool_size release_threshold *rest",
    "PoolMemoryResource": "upstream_mr initial_pool_size maximum_pool_size",
    "ArenaMemoryResource": "upstream_mr arena_size dump_log_on_failure",
}
"""Resources that hand memory out and take it back in the order of a stream: none given, the default one."""
_WITHOUT_STREAM = {"CudaMemoryResource": Space.DEVICE, "ManagedMemoryResource": Space.MANAGED}
"""Resources of ``cudaMalloc`` and ``cudaFree``, whatever stream they are given."""


_COPY_OF_ADDRESS = Copies("", "ptr", "stream", "size", blocking=True, unless="stream", makes=Space.DEVICE)
"""``DeviceBuffer(size=n)`` copies nothing; a copy on the default stream is waited for."""


def _resource(name: str, params: str, space: Space, stream: str | None) -> tuple[Api, ...]:
    made = f"mr.{name}()"
    return (
        Api(f"mr.{name}", params, (Makes(f"rmm.{made}"),)),
        Api(f"{made}.allocate", "nbytes stream", (Allocates(space, stream, address=True, size="nbytes"),)),
        Api(f"{made}.deallocate", "ptr nbytes stream", (Frees("ptr", stream, device_wide=stream is None),)),
    )


RMM = Framework(
    lib=Lib.RMM,
    url="https://docs.rapids.ai/api/rmm/stable/",
    modules=("rmm", "rmm.pylibrmm", "rmm.pylibrmm.device_buffer"),
    functions=(
        Api(
            "pylibrmm.stream.Stream",
            "obj flags",
            (NewStream(StreamKind.BLOCKING, "flags", wraps="obj"),),
        ),
        Api("DeviceBuffer", "*rest ptr size stream mr", (_COPY_OF_ADDRESS,)),
        Api(
            "DeviceBuffer.to_device",
            "b stream",
            (Copies("", "b", "stream", blocking=True, unless="stream", makes=Space.DEVICE, from_host=True),),
        ),
        Api("pylibrmm.cuda_stream_pool.CudaStreamPool", "pool_size flags", (Makes(_POOL, ("flags",)),)),
        Api(
            "pylibrmm.cuda_stream_pool.CudaStreamPool().get_stream",
            "stream_id",
            (NewStream(StreamKind.BLOCKING, "flags"),),
        ),
        Api("reinitialize", "*options", (Pure(),)),
        *(api for name, params in _POOLS.items() for api in _resource(name, params, Space.DEVICE, "stream")),
        *(api for name, space in _WITHOUT_STREAM.items() for api in _resource(name, "", space, None)),
    ),
    stream_methods=(
        Api("synchronize", "", (HostWaitsStream(),)),
        Api("is_default", "", (Pure(),)),
    ),
    buffer_methods=(
        Api(
            "copy_to_host",
            "ary stream",
            (Copies("ary", "self", "stream", blocking=True, unless="stream", makes=Space.PAGEABLE),),
        ),
        Api(
            "copy_from_host",
            "ary stream",
            (Copies("self", "ary", "stream", blocking=True, unless="stream"),),
            telling=("stream",),
        ),
        Api(
            "copy_from_device",
            "cuda_ary stream",
            (Copies("self", "cuda_ary", "stream"),),
            telling=("stream",),
        ),
        Api("tobytes", "stream", (Copies("", "self", "stream", blocking=True, makes=Space.PAGEABLE),)),
        Api("prefetch", "device stream", (Uses(stream="stream"),)),
    ),
    streams=(
        ("pylibrmm.stream.DEFAULT_STREAM", StreamKind.LEGACY),
        ("pylibrmm.stream.LEGACY_DEFAULT_STREAM", StreamKind.LEGACY),
        ("pylibrmm.stream.PER_THREAD_DEFAULT_STREAM", StreamKind.PER_THREAD),
    ),
    constants=(
        ("pylibrmm.cuda_stream.CudaStreamFlags.SYNC_DEFAULT", 0),
        ("pylibrmm.cuda_stream.CudaStreamFlags.NON_BLOCKING", 1),
        ("pylibrmm.stream.CudaStreamFlags.SYNC_DEFAULT", 0),
        ("pylibrmm.stream.CudaStreamFlags.NON_BLOCKING", 1),
    ),
)
