import queue
import threading

import numpy as np
import torch


class Uploader(threading.Thread):
    """Decodes blocks on a thread and uploads them through pinned slots."""

    def __init__(self, paths, shape, slots=3, ahead=2):
        super().__init__(daemon=True)
        self.paths = paths
        self.shape = shape
        self.device = torch.cuda.current_device()
        self.out = queue.Queue(maxsize=ahead)
        self.free = queue.Queue()
        for _ in range(slots):
            self.free.put((torch.empty(shape, pin_memory=True), None))

    def decode(self, path, into):
        rng = np.random.default_rng(abs(hash(path)) % (1 << 32))
        into[...] = rng.standard_normal(into.shape, dtype=np.float32)

    def run(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream()
        for path in self.paths:
            slot, busy = self.free.get()
            if busy is not None:
                busy.synchronize()
            self.decode(path, slot.numpy())
            with torch.cuda.stream(stream):
                block = slot.to("cuda", non_blocking=True)
                event = stream.record_event()
            self.free.put((slot, event))
            self.out.put((path, block, event))
        self.out.put(None)

    def __iter__(self):
        while True:
            item = self.out.get()
            if item is None:
                return
            path, block, event = item
            here = torch.cuda.current_stream()
            here.wait_event(event)
            block.record_stream(here)
            yield path, block


def pca(paths, dim=256, rows=8192, keep=16):
    gram = torch.zeros(dim, dim, device="cuda")
    total = torch.zeros(dim, device="cuda")
    uploader = Uploader(paths, (rows, dim))
    uploader.start()
    count = 0
    for _, block in uploader:
        gram.addmm_(block.t(), block)
        total += block.sum(0)
        count += rows
    uploader.join()
    mean = total / count
    cov = gram / count - torch.outer(mean, mean)
    return torch.linalg.eigvalsh(cov)[-keep:].cpu()


if __name__ == "__main__":
    print(pca([f"/data/part-{i:04d}.bin" for i in range(64)]))
