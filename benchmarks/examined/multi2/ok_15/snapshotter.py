from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from buffers import PagePool


class Snapshotter:
    def __init__(self, flat, prefix, pages=2):
        self.flat = flat
        self.prefix = prefix
        self.pool = PagePool(pages, flat.numel(), flat.dtype)
        self.copier = torch.cuda.Stream()
        self.executor = ThreadPoolExecutor(max_workers=1)
        self.pending = []
        self.last = None

    def begin(self, step):
        page = self.pool.acquire()
        page.step = step
        self.copier.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copier):
            page.host.copy_(self.flat, non_blocking=True)
            page.landed.record()
        self.last = page.landed
        self.pending.append(self.executor.submit(self._save, page))

    def _save(self, page):
        try:
            np.save(f"{self.prefix}_{page.step}.npy", page.numpy())
        finally:
            self.pool.release(page)

    def guard(self):
        """To be called before the state is changed again."""
        if self.last is not None:
            torch.cuda.current_stream().wait_event(self.last)
            self.last = None

    def close(self):
        for f in self.pending:
            f.result()
        self.executor.shutdown()
