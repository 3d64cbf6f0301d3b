import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import torch

from plan import Parcel


class AssemblyLine:
    """Every worker thread keeps a stream of its own for as long as it lives."""

    def __init__(self, workers):
        self._streams = queue.Queue()
        for _ in range(workers):
            self._streams.put(torch.cuda.Stream())
        self._pool = ThreadPoolExecutor(workers, initializer=self._settle)
        self.names = set()

    def _settle(self):
        torch.cuda.set_stream(self._streams.get())
        self.names.add(threading.current_thread().name)

    def _work(self, stage, parcel):
        with torch.inference_mode():
            x = parcel.open()
            for _ in range(stage.repeat):
                x = stage.fn(x)
            return Parcel.sealed(x)

    def push(self, stage, parcel):
        return self._pool.submit(self._work, stage, parcel)

    def close(self):
        self._pool.shutdown(wait=True)
