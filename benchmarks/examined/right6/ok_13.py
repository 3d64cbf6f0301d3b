import numpy as np
from numba import cuda

CHUNK = 1 << 20


@cuda.jit
def gain(x, y, g):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * g


def process(signal, g):
    """Streams a long signal through the device in two alternating lanes."""
    streams = [cuda.stream() for _ in range(2)]
    h_in = [cuda.pinned_array(CHUNK, np.float32) for _ in range(2)]
    h_out = [cuda.pinned_array(CHUNK, np.float32) for _ in range(2)]
    d_in = [cuda.device_array(CHUNK, np.float32) for _ in range(2)]
    d_out = [cuda.device_array(CHUNK, np.float32) for _ in range(2)]
    events = [cuda.event(timing=False) for _ in range(2)]
    result = np.empty_like(signal)
    pending = [None, None]

    def drain(lane):
        start = pending[lane]
        if start is None:
            return
        events[lane].synchronize()
        result[start:start + CHUNK] = h_out[lane]
        pending[lane] = None

    for n, start in enumerate(range(0, signal.size, CHUNK)):
        lane = n % 2
        drain(lane)
        h_in[lane][:] = signal[start:start + CHUNK]
        d_in[lane].copy_to_device(h_in[lane], stream=streams[lane])
        gain[(CHUNK + 255) // 256, 256, streams[lane]](d_in[lane], d_out[lane], g)
        d_out[lane].copy_to_host(h_out[lane], stream=streams[lane])
        events[lane].record(streams[lane])
        pending[lane] = start
    for lane in range(2):
        drain(lane)
    return result


if __name__ == "__main__":
    s = np.random.rand(CHUNK * 9).astype(np.float32)
    print(np.allclose(process(s, np.float32(1.5)), s * 1.5))
