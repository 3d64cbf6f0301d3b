import queue
from dataclasses import dataclass

import numpy as np
from numba import cuda


@cuda.jit
def envelope_kernel(signal, out, width):
    i = cuda.grid(1)
    if i < out.size:
        peak = 0.0
        for k in range(width):
            j = i * width + k
            if j < signal.size:
                peak = max(peak, abs(signal[j]))
        out[i] = peak


@dataclass
class Job:
    index: int
    d_signal: object
    d_out: object
    h_out: np.ndarray


class EnvelopePipeline:
    """Processes acquisition frames on several streams, results arrive through a queue."""

    def __init__(self, width: int, n_streams: int = 4):
        self.width = width
        self.streams = [cuda.stream() for _ in range(n_streams)]
        self.results: "queue.Queue" = queue.Queue()
        self._jobs = []

    def _on_complete(self, stream, status, job: Job) -> None:
        if status != 0:
            self.results.put((job.index, RuntimeError(f"stream failed: {status}")))
            return
        self.results.put((job.index, job.h_out))

    def submit(self, index: int, frame: np.ndarray) -> None:
        stream = self.streams[index % len(self.streams)]
        n_out = (frame.size + self.width - 1) // self.width
        d_signal = cuda.to_device(frame, stream=stream)
        d_out = cuda.device_array(n_out, dtype=np.float32, stream=stream)
        threads = 128
        envelope_kernel[(n_out + threads - 1) // threads, threads, stream](
            d_signal, d_out, self.width
        )
        h_out = cuda.pinned_array(n_out, dtype=np.float32)
        d_out.copy_to_host(h_out, stream=stream)
        job = Job(index, d_signal, d_out, h_out)
        self._jobs.append(job)
        stream.add_callback(self._on_complete, job)

    def run(self, frames) -> list:
        frames = list(frames)
        for index, frame in enumerate(frames):
            self.submit(index, np.ascontiguousarray(frame, dtype=np.float32))
        ordered = [None] * len(frames)
        for _ in frames:
            index, envelope = self.results.get()
            if isinstance(envelope, Exception):
                raise envelope
            ordered[index] = envelope
        for stream in self.streams:
            stream.synchronize()
        self._jobs.clear()
        return ordered
