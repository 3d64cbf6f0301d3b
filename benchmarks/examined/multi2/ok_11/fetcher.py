import queue
import threading

import torch


class AdapterFetcher(threading.Thread):
    """Brings adapters to the shelf when somebody misses them."""

    def __init__(self, library, shelf):
        super().__init__(daemon=True)
        self.library = library
        self.shelf = shelf
        self.orders = queue.Queue()
        self.stream = torch.cuda.Stream()

    def request(self, name):
        ready = threading.Event()
        self.orders.put((name, ready))
        return ready

    def _bring(self, name):
        with self.shelf.lock:
            if name in self.shelf.where:
                return
            place = self.shelf.evict()
            used = self.shelf.last_use[place]
        if used is not None:
            used.synchronize()
        a, b = self.library[name]
        with torch.inference_mode(), torch.cuda.stream(self.stream):
            self.shelf.a[place].copy_(a, non_blocking=True)
            self.shelf.b[place].copy_(b, non_blocking=True)
        self.stream.synchronize()
        with self.shelf.lock:
            self.shelf.publish(name, place)

    def run(self):
        while True:
            item = self.orders.get()
            if item is None:
                return
            name, ready = item
            self._bring(name)
            ready.set()

    def close(self):
        self.orders.put(None)
        self.join()
