"""Numba on two devices: a thread per device, blocks go round through the host."""
import threading
from queue import Queue

import numpy as np
from numba import cuda


@cuda.jit
def relax(u, v, omega):
    i = cuda.grid(1)
    if 0 < i < u.size - 1:
        v[i] = (1.0 - omega) * u[i] + 0.5 * omega * (u[i - 1] + u[i + 1])
    elif i < u.size:
        v[i] = u[i]


class DeviceWorker(threading.Thread):
    def __init__(self, index: int, inbox: Queue, outbox: Queue, n: int):
        super().__init__()
        self.index, self.inbox, self.outbox, self.n = index, inbox, outbox, n
        self.error = None

    def run(self):
        with cuda.gpus[self.index]:
            stream = cuda.stream()
            a = cuda.device_array(self.n, np.float64)
            b = cuda.device_array(self.n, np.float64)
            blocks = (self.n + 255) // 256
            while (item := self.inbox.get()) is not None:
                host, rounds = item
                a.copy_to_device(host, stream=stream)
                for _ in range(rounds):
                    relax[blocks, 256, stream](a, b, 0.9)
                    a, b = b, a
                a.copy_to_host(host, stream=stream)
                done = cuda.event(timing=False)
                done.record(stream)
                done.synchronize()
                self.outbox.put((host, rounds))


def main(n=1 << 18, laps=6):
    count = len(cuda.gpus)
    queues = [Queue() for _ in range(count + 1)]
    workers = [DeviceWorker(k, queues[k], queues[k + 1], n) for k in range(count)]

    for w in workers:
        w.start()
    arrays = [np.zeros(n) for _ in range(4)]
    for k, arr in enumerate(arrays):
        arr[n // 2] = 1.0 + k
    for _ in range(laps):
        for arr in arrays:
            queues[0].put((arr, 10))
        arrays = [queues[count].get()[0] for _ in arrays]
    for w in workers:
        w.inbox.put(None)
        w.join()
    print([float(a.max()) for a in arrays])


if __name__ == "__main__":
    main()
