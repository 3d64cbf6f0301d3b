"""Scatter of host chunks into a paged device buffer by raw pointers; sources stay referenced until their event."""
from collections import deque
import cupy as cp
import torch

H2D = cp.cuda.runtime.memcpyHostToDevice


class PageScatter:
    def __init__(self, pages, page_bytes):
        self.cache = torch.zeros(pages, page_bytes, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()
        self.page_bytes = page_bytes
        self.stream = torch.cuda.Stream()
        self.held = deque()

    def _reap(self):
        while self.held and self.held[0][0].query():
            self.held.popleft()

    def scatter(self, chunks, page_ids):
        self._reap()
        keep = []
        for chunk, page in zip(chunks, page_ids):
            src = chunk if chunk.is_pinned() else chunk.pin_memory()
            cp.cuda.runtime.memcpyAsync(self.cache[page].data_ptr(), src.data_ptr(), self.page_bytes,
                                        H2D, self.stream.cuda_stream)
            keep.append(src)
        event = self.stream.record_event()
        self.held.append((event, keep))
        return event


def main():
    pages, nbytes = 256, 1 << 18
    scatter = PageScatter(pages, nbytes)
    checks = []
    for rnd in range(32):
        chunks = [torch.full((nbytes,), (rnd + i) % 251, dtype=torch.uint8) for i in range(16)]
        ids = [(rnd * 16 + i) % pages for i in range(16)]
        event = scatter.scatter(chunks, ids)
        torch.cuda.current_stream().wait_event(event)
        checks.append(scatter.cache[ids].float().mean())
        scatter.stream.wait_stream(torch.cuda.current_stream())
    print(torch.stack(checks).tolist()[-4:])


if __name__ == "__main__":
    main()
