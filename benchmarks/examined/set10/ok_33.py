import queue
import threading
from dataclasses import dataclass

import torch


@dataclass
class Transfer:
    index: int
    is_store: bool
    pairs: list
    ready: torch.cuda.Event


class DmaCopyBackend:
    def __init__(self, gpu_layers, num_cpu_blocks, device):
        self.gpu_layers = gpu_layers
        self.cpu_layers = [
            torch.empty((num_cpu_blocks, *t.shape[1:]), dtype=t.dtype, pin_memory=True) for t in gpu_layers
        ]
        self.device = torch.device(device)
        self.store_stream = torch.cuda.Stream(device=self.device)
        self.load_stream = torch.cuda.Stream(device=self.device)
        self.queue = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.in_flight = {}
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def _loop(self):
        torch.cuda.set_device(self.device)
        while True:
            item = self.queue.get()
            if item is None:
                return
            stream = self.store_stream if item.is_store else self.load_stream
            stream.wait_event(item.ready)
            with torch.cuda.stream(stream):
                for src, dst in item.pairs:
                    for gpu, cpu in zip(self.gpu_layers, self.cpu_layers):
                        if item.is_store:
                            cpu[dst].copy_(gpu[src], non_blocking=True)
                        else:
                            gpu[dst].copy_(cpu[src], non_blocking=True)
                end_event = torch.cuda.Event()
                end_event.record(stream)
            with self.lock:
                self.in_flight[item.index] = end_event

    def submit(self, index, is_store, pairs):
        ready = torch.cuda.Event()
        ready.record(torch.cuda.current_stream(self.device))
        self.queue.put(Transfer(index, is_store, pairs, ready))

    def poll(self):
        with self.lock:
            done = [i for i, event in self.in_flight.items() if event.query()]
            for i in done:
                del self.in_flight[i]
        return done

    def shutdown(self):
        self.queue.put(None)
        self.thread.join()
        torch.cuda.synchronize(self.device)


class OffloadManager:
    """Block ownership: nothing is reused before the backend has reported its transfer."""

    def __init__(self, backend, num_cpu_blocks):
        self.backend = backend
        self.free_cpu = list(range(num_cpu_blocks))
        self.cpu_index = {}
        self.pending = {}
        self.counter = 0

    def store(self, hashes, gpu_blocks, release):
        pairs, keys = [], []
        for key, block in zip(hashes, gpu_blocks):
            if key in self.cpu_index or not self.free_cpu:
                continue
            pairs.append((block, self.free_cpu.pop()))
            keys.append((key, pairs[-1][1]))
        self._start(True, pairs, lambda: (self.cpu_index.update(keys), release(gpu_blocks)))

    def load(self, hashes, gpu_blocks, on_ready):
        pairs = [(self.cpu_index[k], b) for k, b in zip(hashes, gpu_blocks)]
        self._start(False, pairs, on_ready)

    def _start(self, is_store, pairs, callback):
        self.counter += 1
        self.pending[self.counter] = callback
        self.backend.submit(self.counter, is_store, pairs)

    def step(self):
        for index in self.backend.poll():
            self.pending.pop(index)()
