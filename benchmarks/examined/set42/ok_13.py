"""Two threads with their own Numba streams, batons in both directions."""
import queue
import threading

import numpy as np
from numba import cuda

N = 1 << 18


@cuda.jit
def smooth(src, dst):
    i = cuda.grid(1)
    if 0 < i < src.size - 1:
        dst[i] = 0.25 * src[i - 1] + 0.5 * src[i] + 0.25 * src[i + 1]
    elif i < src.size:
        dst[i] = src[i]


@cuda.jit
def accumulate(src, total):
    i = cuda.grid(1)
    if i < src.size:
        total[i] += src[i]


class Frame:
    def __init__(self):
        self.raw = cuda.device_array(N, np.float32)
        self.clean = cuda.device_array(N, np.float32)
        self.filled = cuda.event(timing=False)
        self.emptied = cuda.event(timing=False)


class Feeder(threading.Thread):
    def __init__(self, signals, idle, busy):
        super().__init__()
        self.signals, self.idle, self.busy = signals, idle, busy

    def run(self):
        stream = cuda.per_thread_default_stream()
        for signal in self.signals:
            frame = self.idle.get()
            frame.emptied.wait(stream)
            frame.raw.copy_to_device(signal, stream=stream)
            smooth[N // 256, 256, stream](frame.raw, frame.clean)
            frame.filled.record(stream)
            self.busy.put(frame)
        self.busy.put(None)
        stream.synchronize()


class Stacker(threading.Thread):
    def __init__(self, idle, busy):
        super().__init__()
        self.idle, self.busy = idle, busy
        self.total = cuda.to_device(np.zeros(N, np.float32))
        self.stacked = None

    def run(self):
        stream = cuda.per_thread_default_stream()
        while (frame := self.busy.get()) is not None:
            frame.filled.wait(stream)
            accumulate[N // 256, 256, stream](frame.clean, self.total)
            frame.emptied.record(stream)
            self.idle.put(frame)
        out = cuda.pinned_array(N, np.float32)
        self.total.copy_to_host(out, stream=stream)
        stream.synchronize()
        self.stacked = out


def stack(signals, depth=3):
    idle, busy = queue.Queue(), queue.Queue()
    for _ in range(depth):
        idle.put(Frame())
    stacker = Stacker(idle, busy)
    feeder = Feeder(signals, idle, busy)
    cuda.synchronize()
    feeder.start()
    stacker.start()
    feeder.join()
    stacker.join()
    return stacker.stacked


def main():
    rng = np.random.default_rng(11)
    signals = [rng.standard_normal(N).astype(np.float32) for _ in range(20)]
    print(stack(signals)[:4])


if __name__ == "__main__":
    main()
