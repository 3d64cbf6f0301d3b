import threading
from concurrent.futures import ThreadPoolExecutor

import torch


class LanePool:
    def __init__(self, workers):
        self.pool = ThreadPoolExecutor(workers)
        self.local = threading.local()

    def _stream(self):
        if not hasattr(self.local, "stream"):
            self.local.stream = torch.cuda.Stream()
        return self.local.stream

    def _call(self, entry, fn, args):
        stream = self._stream()
        stream.wait_event(entry)
        with torch.cuda.stream(stream), torch.no_grad():
            value = fn(*args)
            done = torch.cuda.Event()
            done.record()
        return value, done

    def submit(self, fn, *args):
        entry = torch.cuda.Event()
        entry.record()
        return self.pool.submit(self._call, entry, fn, args)

    def collect(self, fut):
        value, done = fut.result()
        torch.cuda.current_stream().wait_event(done)
        return value
