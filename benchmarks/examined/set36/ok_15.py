"""Signal server: slots of page-locked memory are recycled from a host function of the stream."""
import queue
import threading

import cupy as cp
import numpy as np


def pinned_array(shape, dtype=np.float32):
    count = int(np.prod(shape))
    mem = cp.cuda.alloc_pinned_memory(count * np.dtype(dtype).itemsize)
    return np.frombuffer(mem, dtype, count).reshape(shape)


class Slot:
    def __init__(self, samples):
        self.inp = pinned_array(samples)
        self.out = pinned_array(2)
        self.device = cp.zeros(samples, dtype=cp.float32)
        self.stats = cp.zeros(2, dtype=cp.float32)
        self.reply = None


class SignalServer:
    def __init__(self, samples, slots=4):
        self.samples = samples
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.free = queue.SimpleQueue()
        self.completed = queue.SimpleQueue()
        for _ in range(slots):
            self.free.put(Slot(samples))
        cp.cuda.runtime.deviceSynchronize()
        self.device_id = cp.cuda.runtime.getDevice()
        self.lock = threading.Lock()
        threading.Thread(target=self._answer, daemon=True).start()

    def request(self, signal, reply):
        """reply: a queue that gets (mean, rms)."""
        slot = self.free.get()
        slot.inp[:] = signal
        slot.reply = reply
        with self.lock, cp.cuda.Device(self.device_id), self.stream:
            slot.device.set(slot.inp, stream=self.stream)
            slot.stats[0] = slot.device.mean()
            slot.stats[1] = cp.sqrt((slot.device * slot.device).mean())
            cp.cuda.runtime.memcpyAsync(slot.out.ctypes.data, slot.stats.data.ptr,
                                        slot.stats.nbytes, cp.cuda.runtime.memcpyDeviceToHost,
                                        self.stream.ptr)
            self.stream.launch_host_func(self.completed.put, slot)

    def _answer(self):
        while True:
            slot = self.completed.get()
            slot.reply.put((float(slot.out[0]), float(slot.out[1])))
            slot.reply = None
            self.free.put(slot)


def client(server, number, results):
    rng = np.random.default_rng(number)
    reply = queue.Queue()
    for _ in range(50):
        server.request(rng.standard_normal(server.samples, dtype=np.float32) + number, reply)
    results.append((number, np.mean([reply.get()[0] for _ in range(50)])))


if __name__ == "__main__":
    srv = SignalServer(1 << 18)
    out = []
    clients = [threading.Thread(target=client, args=(srv, k, out)) for k in range(6)]
    for c in clients:
        c.start()
    for c in clients:
        c.join()
    print(sorted(out))
