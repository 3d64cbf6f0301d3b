"""Chunked GPU operations over stacked power traces."""
from math import sqrt
from typing import List, Optional

import numpy as np
from numba import cuda


@cuda.jit(cache=True)
def gpu_average(samples, result):
    col = cuda.grid(1)
    if col >= samples.shape[1]:
        return
    acc = 0.0
    for row in range(samples.shape[0]):
        acc += samples[row, col]
    result[col] = acc / samples.shape[0]


@cuda.jit(cache=True)
def gpu_std_dev(samples, result):
    col = cuda.grid(1)
    if col >= samples.shape[1]:
        return
    acc = 0.0
    for row in range(samples.shape[0]):
        acc += samples[row, col]
    mean = acc / samples.shape[0]
    var = 0.0
    for row in range(samples.shape[0]):
        diff = samples[row, col] - mean
        var += diff * diff
    result[col] = sqrt(var / samples.shape[0])


class GPUTraceManager:
    """Column-wise operations over a (traces, samples) matrix, in chunks of samples."""

    def __init__(self, samples: np.ndarray, chunk_size: int, stream_count: int = 4, tpb: int = 128):
        self._samples = samples
        self._chunk_size = chunk_size
        self._stream_count = stream_count
        self._tpb = tpb

    def _gpu_combine1D_chunked(self, func) -> np.ndarray:
        rows, cols = self._samples.shape
        chunk_count = (cols + self._chunk_size - 1) // self._chunk_size
        streams = [cuda.stream() for _ in range(self._stream_count)]
        events: List[Optional[object]] = [None] * self._stream_count
        pinned_input_buffers = [
            cuda.pinned_array((rows, self._chunk_size), dtype=self._samples.dtype, order="F")
            for _ in range(self._stream_count)
        ]
        chunk_results = []

        with cuda.defer_cleanup():
            for chunk in range(chunk_count):
                start = chunk * self._chunk_size
                end = min(start + self._chunk_size, cols)
                slot = chunk % self._stream_count
                stream = streams[slot]
                event = events[slot]
                if event is not None:
                    event.wait(stream=stream)

                pinned_input = pinned_input_buffers[slot]
                np.copyto(pinned_input[:, :end - start], self._samples[:, start:end])

                device_input = cuda.to_device(pinned_input[:, :end - start], stream=stream)
                device_output = cuda.device_array((end - start,), dtype=np.float64, stream=stream)

                bpg = (end - start + self._tpb - 1) // self._tpb
                func[bpg, self._tpb, stream](device_input, device_output)

                event = cuda.event()
                event.record(stream=stream)
                events[slot] = event

                host_output = cuda.pinned_array((end - start,), dtype=np.float64)
                device_output.copy_to_host(host_output, stream=stream)
                chunk_results.append(host_output)

            cuda.synchronize()

        return np.concatenate(chunk_results)

    def average(self) -> np.ndarray:
        return self._gpu_combine1D_chunked(gpu_average)

    def standard_deviation(self) -> np.ndarray:
        return self._gpu_combine1D_chunked(gpu_std_dev)
