import queue
import threading
import time
from dataclasses import dataclass, field

import cupy
import torch


@dataclass
class Event:
    kind: str
    key: str
    created: float = field(default_factory=time.monotonic)
    stamped: float = 0.0


class EventBus:
    """Delivers events in the order in which a CUDA stream reaches them."""

    def __init__(self):
        self._lock = threading.Lock()
        self._pending = []
        self._subscribers = {}
        self._queue = queue.Queue()
        self._thread = threading.Thread(target=self._drain_loop, daemon=True)
        self._thread.start()

    def subscribe(self, kind, callback):
        with self._lock:
            self._subscribers.setdefault(kind, []).append(callback)

    def _enqueue(self, event):
        event.stamped = time.monotonic()
        with self._lock:
            self._pending.append(event)

    def publish_on_stream(self, event, stream):
        cupy_stream = cupy.cuda.ExternalStream(stream.cuda_stream)
        cupy_stream.launch_host_func(self._enqueue, event)

    def flush(self, stream):
        with self._lock:
            stream.synchronize()
            ready, self._pending = self._pending, []
        for event in ready:
            self._queue.put(event)

    def _drain_loop(self):
        while True:
            event = self._queue.get()
            with self._lock:
                callbacks = list(self._subscribers.get(event.kind, ()))
            for callback in callbacks:
                callback(event)


class StorageWorker:
    def __init__(self, bus, slots, chunk_bytes):
        self.bus = bus
        self.stream = torch.cuda.Stream()
        self.host = torch.empty(slots, chunk_bytes, dtype=torch.uint8, pin_memory=True)

    def store(self, keys, chunks):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for slot, (key, chunk) in enumerate(zip(keys, chunks)):
                self.host[slot].copy_(chunk.view(-1).view(torch.uint8), non_blocking=True)
                chunk.record_stream(self.stream)
                self.bus.publish_on_stream(Event("stored", key), self.stream)
        self.bus.flush(self.stream)
        return [self.host[slot].clone() for slot in range(len(keys))]


def main():
    bus = EventBus()
    bus.subscribe("stored", lambda e: print(e.key, e.stamped - e.created))
    worker = StorageWorker(bus, slots=8, chunk_bytes=4 << 20)
    chunks = [torch.randn(1 << 20, device="cuda") for _ in range(8)]
    worker.store([f"chunk-{i}" for i in range(8)], chunks)
