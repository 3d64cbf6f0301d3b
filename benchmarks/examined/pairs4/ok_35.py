"""Scatter of host chunks into a paged device cache through raw copies."""
from collections import deque

import torch
from cuda.bindings import runtime as rt


class PagedCache:
    def __init__(self, pages, page_bytes):
        self.page_bytes = page_bytes
        self.memory = torch.zeros(pages, page_bytes, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()
        self.stream = torch.cuda.Stream()
        self.owners = deque()

    def _reap(self):
        while self.owners and self.owners[0][1].query():
            self.owners.popleft()

    def scatter(self, chunks, pages):
        self._reap()
        staged = [c if c.is_pinned() else c.pin_memory() for c in chunks]
        for chunk, page in zip(staged, pages):
            dst = self.memory[page].data_ptr()
            (err,) = rt.cudaMemcpyAsync(dst, chunk.data_ptr(), self.page_bytes,
                                        rt.cudaMemcpyKind.cudaMemcpyHostToDevice, self.stream.cuda_stream)
            if err != rt.cudaError_t.cudaSuccess:
                raise RuntimeError(err)
        done = self.stream.record_event()
        self.owners.append((staged, done))
        return done

    def read(self, pages, done):
        torch.cuda.current_stream().wait_event(done)
        return self.memory[torch.tensor(pages, device="cuda")]

    def close(self):
        self.stream.synchronize()
        self.owners.clear()


def main():
    cache = PagedCache(1024, 1 << 18)
    total = torch.zeros((), device="cuda")
    gen = torch.Generator().manual_seed(0)
    for group in range(64):
        pages = list(range(group * 16, group * 16 + 16))
        chunks = [torch.randint(0, 255, (1 << 18,), dtype=torch.uint8, generator=gen) for _ in pages]
        done = cache.scatter(chunks, pages)
        total += cache.read(pages, done).float().sum()
    cache.close()
    print(total.item())


if __name__ == "__main__":
    main()
