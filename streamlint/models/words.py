"""Identifiers that show that code touches streams, events or asynchronous copies."""

from __future__ import annotations

from functools import lru_cache

STRONG_WORDS = frozenset(
    """
    Stream wait_stream wait_event record_event record_stream current_stream default_stream set_stream
    StreamContext ExternalStream non_blocking launch_host_func
    cudaMemcpyAsync cudaMemsetAsync cudaLaunchHostFunc cudaStreamAddCallback cudaStreamCreate
    cudaStreamCreateWithFlags cudaStreamCreateWithPriority cudaStreamWaitEvent
    cudaEventRecord cudaMallocAsync
    cudaFreeAsync cudaLaunchKernel cudaMemcpy2DAsync cudaMemcpyPeerAsync cudaStreamBeginCapture
    cuMemcpyAsync cuMemcpyHtoDAsync cuMemcpyDtoHAsync cuMemcpyDtoDAsync cuLaunchKernel cuStreamWaitEvent
    cuEventRecord
    cuLaunchHostFunc cuStreamAddCallback cudaMalloc cuMemAlloc
    async_op isend irecv elapsed_time CUDAGraph make_graphed_callables
    capture_begin begin_capture create_graph_builder begin_building
    cudaStreamBeginCaptureToGraph cuStreamBeginCapture cuStreamBeginCaptureToGraph
    create_stream get_current_stream copy_to_host auto_synchronize
    empty_pinned zeros_pinned alloc_pinned_memory pagelocked_empty pagelocked_zeros
    pinned_array mapped_array managed_array
    memcpy_htod_async memcpy_dtoh_async memcpy_dtod_async to_gpu_async prepared_async_call ScopedStream
    raw_read_async raw_write_async pread pwrite execute_async_v3 execute_async_v2
    """.split()
)
"""Words that are hardly anything else. A module without any is not analyzed by itself."""

ORDERING_WORDS = STRONG_WORDS | frozenset(
    """
    synchronize replay create_event copy_to copy_from asnumpy to_device add_callback
    cudaStreamSynchronize cudaEventSynchronize cudaDeviceSynchronize cudaStreamQuery cudaEventQuery
    cuStreamSynchronize
    """.split()
)

_ENTERING = frozenset({"cuda", "stream"})
"""``with torch.cuda.stream(SIDE):`` in a module that does nothing else with streams."""

_CAPTURING = frozenset({"cuda", "graph"})
"""``with torch.cuda.graph(self.plan):``"""

MAKERS = frozenset(
    """
    Stream create_stream cudaStreamCreate cudaStreamCreateWithFlags cudaStreamCreateWithPriority
    cuStreamCreate stream
    Event create_event
    """.split()
)
"""Last names of calls that make a stream or an event (``numba.cuda.stream()``)."""

_FALSE_FRIENDS = (
    *("upstream", "downstream", "filestream", "bytestream", "textstream", "streaming", "streamlit"),
    *("streamhandler", "streamresponse", "stream_options", "stream_response", "streamed", "event_stream"),
)


_KEPT = 20_000
"""Functions whose names are remembered; a large tree has more, and each is asked about again and again."""


@lru_cache(maxsize=_KEPT)
def touches(names: frozenset[str]) -> bool:
    """Whether code with these identifiers may touch a stream."""
    return (
        not ORDERING_WORDS.isdisjoint(names)
        or names >= _CAPTURING
        or any(_names_a_stream(name) for name in names)
    )


@lru_cache(maxsize=_KEPT)
def surely_touches(names: frozenset[str]) -> bool:
    """Whether code with these identifiers touches streams or asynchronous copies."""
    return not STRONG_WORDS.isdisjoint(names) or names >= _ENTERING or names >= _CAPTURING


@lru_cache(maxsize=_KEPT)
def makes_streams(names: frozenset[str]) -> bool:
    """Whether code with these identifiers may create a stream or an event."""
    return not MAKERS.isdisjoint(names)


def _names_a_stream(name: str) -> bool:
    low = name.lower()
    return "stream" in low and not any(friend in low for friend in _FALSE_FRIENDS)
