import queue
import threading

import numpy as np
from numba import cuda


@cuda.jit
def quantize(x, scale, q):
    i = cuda.grid(1)
    if i < x.shape[0]:
        v = x[i] / scale
        q[i] = max(-127, min(127, int(round(v))))


class Exporter(threading.Thread):
    """Waits for device blocks, stores them and acknowledges the slot."""

    def __init__(self, acks):
        super().__init__()
        self.inbox = queue.Queue()
        self.acks = acks
        self.stored = []
        self.failure = None

    def run(self):
        cuda.current_context()
        try:
            while (item := self.inbox.get()) is not None:
                slot, event, host = item
                event.synchronize()
                self.stored.append(host.copy())
                self.acks.put(slot)
        except Exception as exc:
            self.failure = exc


class Quantizer:
    def __init__(self, n, slots=2):
        self.n = n
        self.stream = cuda.stream()
        self.acks = queue.Queue()
        self.h_in = [cuda.pinned_array(n, np.float32) for _ in range(slots)]
        self.h_out = [cuda.pinned_array(n, np.int8) for _ in range(slots)]
        self.d_in = [cuda.device_array(n, np.float32) for _ in range(slots)]
        self.d_out = [cuda.device_array(n, np.int8) for _ in range(slots)]
        self.exporter = Exporter(self.acks)
        self.exporter.start()
        for s in range(slots):
            self.acks.put(s)

    def push(self, block):
        slot = self.acks.get(timeout=60)
        self.h_in[slot][:] = block
        scale = float(np.abs(block).max()) / 127
        self.d_in[slot].copy_to_device(self.h_in[slot], stream=self.stream)
        quantize[(self.n + 255) // 256, 256, self.stream](self.d_in[slot], scale, self.d_out[slot])
        self.d_out[slot].copy_to_host(self.h_out[slot], stream=self.stream)
        event = cuda.event(timing=False)
        event.record(self.stream)
        self.exporter.inbox.put((slot, event, self.h_out[slot]))

    def close(self):
        self.exporter.inbox.put(None)
        self.exporter.join()
        if self.exporter.failure is not None:
            raise self.exporter.failure
        return self.exporter.stored


def main():
    rng = np.random.default_rng(0)
    quantizer = Quantizer(1 << 18)
    for _ in range(20):
        quantizer.push(rng.standard_normal(1 << 18).astype(np.float32))
    blocks = quantizer.close()
    print(len(blocks), sum(int(np.abs(b).max()) for b in blocks))


if __name__ == "__main__":
    main()
