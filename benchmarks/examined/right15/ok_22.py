"""Reads records into one reusable array and uploads them from a loader thread."""
import queue
import threading

import numpy as np
import torch


class RecordLoader:
    def __init__(self, path, width, rows=256, device="cuda:0"):
        self.path = path
        self.width = width
        self.rows = rows
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)

    def _read(self, out, halt):
        scratch = np.empty((self.rows, self.width), dtype=np.float32)
        view = torch.from_numpy(scratch)
        error = None
        try:
            torch.cuda.set_device(self.device)
            with open(self.path, "rb") as handle, torch.cuda.stream(self.stream):
                while not halt.is_set():
                    got = handle.readinto(memoryview(scratch).cast("B"))
                    count = got // (4 * self.width)
                    if count == 0:
                        break
                    out.put(view[:count].to(self.device))
        except Exception as caught:
            error = caught
        out.put(error)

    def __iter__(self):
        out = queue.Queue()
        halt = threading.Event()
        thread = threading.Thread(target=self._read, args=(out, halt), daemon=True)
        thread.start()
        try:
            while True:
                item = out.get()
                if item is None:
                    return
                if isinstance(item, Exception):
                    raise item
                item.record_stream(torch.cuda.current_stream(self.device))
                yield item
        finally:
            halt.set()
            thread.join()


def covariance(loader):
    gram = torch.zeros(loader.width, loader.width, device=loader.device)
    total = torch.zeros(loader.width, device=loader.device)
    count = 0
    for block in loader:
        gram.addmm_(block.t(), block)
        total += block.sum(0)
        count += block.shape[0]
    mean = total / max(count, 1)
    return gram / max(count, 1) - torch.outer(mean, mean)


def main():
    rng = np.random.default_rng(7)
    rng.standard_normal((5000, 32)).astype(np.float32).tofile("/tmp/records.bin")
    loader = RecordLoader("/tmp/records.bin", 32)
    print(covariance(loader).diagonal().mean().item())


if __name__ == "__main__":
    main()
