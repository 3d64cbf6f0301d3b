"""External memory histogram building: pages are read by a small thread pool and reduced on the GPU."""
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch


class PageFile:
    """Compressed pages kept as memory mapped arrays of bin indices."""

    def __init__(self, path, n_pages, rows, features):
        self.data = np.memmap(path, dtype=np.int32, mode="r", shape=(n_pages, rows, features))
        self.n_pages, self.rows, self.features = n_pages, rows, features


class PageReader:
    """Each worker keeps its stream for its whole life; buffers alternate between two pages."""

    def __init__(self, pages, device, workers=2):
        self.pages = pages
        self.device = torch.device(device)
        self.pool = ThreadPoolExecutor(workers, thread_name_prefix="page-reader")
        self._tls = threading.local()
        shape = (pages.rows, pages.features)
        self.host = [torch.empty(shape, dtype=torch.int32, pin_memory=True) for _ in range(2)]
        self.dev = [torch.empty(shape, dtype=torch.int32, device=self.device) for _ in range(2)]
        torch.cuda.synchronize(self.device)

    def _stream(self):
        if not hasattr(self._tls, "stream"):
            torch.cuda.set_device(self.device)
            self._tls.stream = torch.cuda.Stream(self.device)
        return self._tls.stream

    def _read(self, index):
        slot = index % 2
        np.copyto(self.host[slot].numpy(), self.pages.data[index])
        with torch.cuda.stream(self._stream()):
            self.dev[slot].copy_(self.host[slot], non_blocking=True)
        return self.dev[slot]

    def submit(self, index):
        return self.pool.submit(self._read, index)

    def close(self):
        self.pool.shutdown(wait=True)


class HistogramBuilder:
    def __init__(self, n_bins, features, device):
        self.n_bins, self.features = n_bins, features
        self.offset = torch.arange(features, device=device) * n_bins

    def build(self, page, grad):
        flat = (page.long() + self.offset).view(-1)
        weights = grad[:, None].expand(-1, self.features).reshape(-1)
        hist = torch.zeros(self.n_bins * self.features, dtype=torch.float64, device=page.device)
        hist.index_add_(0, flat, weights.double())
        return hist.view(self.features, self.n_bins).cpu()


def build_histogram(path, n_pages, rows, features, grads, n_bins=256, device="cuda:0"):
    reader = PageReader(PageFile(path, n_pages, rows, features), device)
    builder = HistogramBuilder(n_bins, features, device)
    total = torch.zeros((features, n_bins), dtype=torch.float64)
    try:
        upcoming = reader.submit(0)
        for index in range(n_pages):
            page = upcoming.result()
            if index + 1 < n_pages:
                upcoming = reader.submit(index + 1)
            total += builder.build(page, grads[index].to(device))
    finally:
        reader.close()
    return total
