"""Chunked companding of a long recording: two pinned inputs, two device buffers."""
import cupy as cp
import cupyx
import numpy as np


class Channel:
    def __init__(self, n: int):
        self.h_in = cupyx.empty_pinned((n,), np.float32)
        self.h_out = cupyx.empty_pinned((n,), np.float32)
        self.d_in = cp.empty(n, cp.float32)
        self.d_out = cp.empty(n, cp.float32)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.finished = cp.cuda.Event(block=True, disable_timing=True)
        self.owner = None


compand = cp.ElementwiseKernel(
    "float32 x, float32 peak", "float32 y", "y = copysignf(log1pf(255.f * fabsf(x) / peak) / 5.545177f, x)", "compand"
)


def submit(ch: Channel, chunk: np.ndarray, index: int):
    ch.h_in[...] = chunk
    with ch.stream:
        ch.d_in.set(ch.h_in, stream=ch.stream)
        peak = cp.abs(ch.d_in).max() + np.float32(1e-6)
        compand(ch.d_in, peak, ch.d_out)
        ch.d_out.data.copy_to_host_async(ch.h_out.ctypes.data, ch.d_out.nbytes, ch.stream)
    ch.finished.record(ch.stream)
    ch.owner = index


def collect(ch: Channel, into: np.ndarray):
    if ch.owner is None:
        return
    ch.finished.synchronize()
    into[ch.owner] = ch.h_out
    ch.owner = None


def encode(signal: np.ndarray, n: int = 1 << 16) -> np.ndarray:
    rows = len(signal) // n
    out = np.empty((rows, n), np.float32)
    channels = [Channel(n), Channel(n)]
    cp.cuda.Device().synchronize()
    for i in range(rows):
        ch = channels[i & 1]
        collect(ch, out)
        submit(ch, signal[i * n : (i + 1) * n], i)
    for ch in channels:
        collect(ch, out)
    return out


if __name__ == "__main__":
    sig = np.sin(np.linspace(0, 1e5, 40 << 16)).astype(np.float32)
    print(encode(sig).max(axis=1)[:4])
