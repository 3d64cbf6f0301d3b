"""One Numba worker thread per GPU, results merged by the parent."""
import threading
from queue import Queue

import numpy as np
from numba import cuda


@cuda.jit
def potential(pos, charge, out):
    i = cuda.grid(1)
    if i < out.size:
        acc = 0.0
        for j in range(charge.size):
            d = abs(pos[i] - pos[j]) + 1e-3
            acc += charge[j] / d
        out[i] = acc


class GpuWorker(threading.Thread):
    def __init__(self, index, inbox, outbox):
        super().__init__(daemon=True)
        self.index, self.inbox, self.outbox = index, inbox, outbox

    def run(self):
        with cuda.gpus[self.index]:
            stream = cuda.stream()
            while True:
                job = self.inbox.get()
                if job is None:
                    break
                key, pos, charge = job
                self.outbox.put((key, self.solve(stream, pos, charge)))

    def solve(self, stream, pos, charge):
        result = np.empty_like(pos)
        with stream.auto_synchronize():
            d_pos = cuda.to_device(pos, stream=stream)
            d_charge = cuda.to_device(charge, stream=stream)
            d_out = cuda.device_array_like(d_pos, stream=stream)
            potential[(pos.size + 127) // 128, 128, stream](d_pos, d_charge, d_out)
            d_out.copy_to_host(result, stream=stream)
        return result


def run(problems):
    inbox, outbox = Queue(), Queue()
    workers = [GpuWorker(i, inbox, outbox) for i in range(len(cuda.gpus))]
    for w in workers:
        w.start()
    for key, (pos, charge) in enumerate(problems):
        inbox.put((key, pos, charge))
    results = dict(outbox.get() for _ in range(len(problems)))
    for _ in workers:
        inbox.put(None)
    for w in workers:
        w.join()
    return [results[k] for k in sorted(results)]


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    print(len(run([(rng.random(4096), rng.random(4096)) for _ in range(8)])))
