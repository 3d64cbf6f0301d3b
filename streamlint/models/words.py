"""Identifiers that show that code touches streams, events or asynchronous copies."""

from __future__ import annotations

STREAM_WORDS = frozenset(
    """
    Stream stream wait_stream wait_event record_event record_stream current_stream default_stream set_stream
    StreamContext ExternalStream non_blocking synchronize Event record query wait launch_host_func add_callback
    cudaMemcpyAsync cudaMemsetAsync cudaLaunchHostFunc cudaStreamAddCallback cudaStreamCreate
    cudaStreamCreateWithFlags cudaStreamCreateWithPriority cudaStreamSynchronize cudaStreamWaitEvent
    cudaEventRecord cudaEventSynchronize cudaDeviceSynchronize cudaStreamQuery cudaEventQuery cudaMallocAsync
    cudaFreeAsync cudaLaunchKernel cudaMemcpy2DAsync cudaMemcpyPeerAsync cudaStreamBeginCapture
    cuMemcpyAsync cuMemcpyHtoDAsync cuMemcpyDtoHAsync cuMemcpyDtoDAsync cuLaunchKernel cuStreamWaitEvent cuEventRecord
    cuStreamSynchronize cuLaunchHostFunc cuStreamAddCallback
    create_stream create_event copy_to copy_from asnumpy get_current_stream copy_to_host to_device auto_synchronize
    async_op CUDAGraph
    """.split()
)

ORDERING_WORDS = STREAM_WORDS - {"stream", "record", "query", "wait", "Event"}
"""Words that are rarely anything else; the others occur in code that has nothing to do with a GPU."""


_FALSE_FRIENDS = (
    "upstream",
    "downstream",
    "filestream",
    "bytestream",
    "textstream",
    "streaming",
    "streamlit",
    "streamhandler",
)


def touches(names: frozenset[str]) -> bool:
    """Whether code with these identifiers may touch a stream."""
    return not ORDERING_WORDS.isdisjoint(names) or any(_names_a_stream(name) for name in names)


def _names_a_stream(name: str) -> bool:
    low = name.lower()
    return "stream" in low and not any(friend in low for friend in _FALSE_FRIENDS)
