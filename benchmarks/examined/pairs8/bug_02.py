import torch
import torch.nn as nn


class PageTable:
    def __init__(self, num_seqs, max_pages):
        self.pages = torch.zeros((num_seqs, max_pages), dtype=torch.int64, device="cuda")
        self.lens = torch.zeros(num_seqs, dtype=torch.int64, device="cuda")


class DecodeLoop:
    """Page allocation on the plan stream, attention on the run stream."""

    def __init__(self, num_seqs=32, max_pages=256, width=1024):
        self.table = PageTable(num_seqs, max_pages)
        self.k_cache = torch.randn(num_seqs * max_pages, width, device="cuda")
        self.out_proj = nn.Linear(width, width, device="cuda")
        self.seq_index = torch.arange(num_seqs, device="cuda")
        self.result = torch.empty(num_seqs, width, device="cuda")
        self.plan_stream = torch.cuda.Stream()
        self.run_stream = torch.cuda.Stream()
        torch.cuda.synchronize()

    def _extend(self, step):
        new_pages = (self.seq_index + step * 31) % self.k_cache.shape[0]
        self.table.pages[self.seq_index, self.table.lens] = new_pages
        self.table.lens.add_(1)

    @torch.no_grad()
    def _attend(self):
        gathered = self.k_cache[self.table.pages]
        mask = torch.arange(self.table.pages.shape[1], device="cuda") < self.table.lens[:, None]
        ctx = (gathered * mask[..., None]).sum(1)
        self.result.copy_(self.out_proj(ctx))

    def run(self, steps):
        for step in range(steps):
            with torch.cuda.stream(self.plan_stream):
                self._extend(step)
                planned = torch.cuda.Event()
                planned.record()
            with torch.cuda.stream(self.run_stream):
                planned.wait()
                self._attend()
        self.run_stream.synchronize()
        return self.result.sum().item()


def test_decode_loop():
    loop = DecodeLoop()
    assert loop.run(100) == loop.run(0)


if __name__ == "__main__":
    print(DecodeLoop().run(128))
