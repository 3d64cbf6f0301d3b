"""Split-KV decode attention planned from host-side page tables."""
import math

import torch


class BatchDecodeWrapper:
    def __init__(self, page_size, target_chunk=512, device="cuda"):
        self.page_size = page_size
        self.target_chunk = target_chunk
        self.device = device

    def _upload(self, values, dtype=torch.int64):
        return torch.tensor(values, dtype=dtype).pin_memory().to(self.device, non_blocking=True)

    def plan(self, indptr_host, last_host, indices):
        bounds, tails = indptr_host.tolist(), last_host.tolist()
        request, rows = [], []
        for r, tail in enumerate(tails):
            pages = bounds[r + 1] - bounds[r]
            tokens = max(0, (pages - 1) * self.page_size + tail)
            base = bounds[r] * self.page_size
            request.extend([r] * tokens)
            rows.extend(range(base, base + tokens))
        self.batch = len(tails)
        self.request = self._upload(request)
        self.rows = self._upload(rows)
        self.indices = indices

    def run(self, q, kv):
        dim = q.shape[1]
        tokens = kv[self.indices].view(-1, dim)[self.rows]
        weight = torch.exp((tokens * q[self.request]).sum(1) / math.sqrt(dim))
        out = torch.zeros(self.batch, dim, device=q.device)
        norm = torch.zeros(self.batch, device=q.device)
        out.index_add_(0, self.request, tokens * weight[:, None])
        norm.index_add_(0, self.request, weight)
        return out / norm.clamp_min(1e-6)[:, None]


def build_batch(lengths, page_size):
    lens = torch.tensor(lengths)
    pages = (lens + page_size - 1) // page_size
    indptr = torch.zeros(len(lengths) + 1, dtype=torch.int64)
    indptr[1:] = torch.cumsum(pages, 0)
    return indptr, lens - (pages - 1) * page_size


def main():
    page, dim = 16, 128
    kv = torch.randn(4096, page, dim, device="cuda") * 0.1
    indices = torch.arange(1024, device="cuda")
    wrapper = BatchDecodeWrapper(page)
    norms = []
    for step in range(4):
        indptr, last = build_batch([700 + step, 1333 + step, 90 + step, 2048 + step], page)
        wrapper.plan(indptr, last, indices)
        q = torch.randn(4, dim, device="cuda")
        norms.append(wrapper.run(q, kv).norm())
    print(torch.stack(norms).tolist())


if __name__ == "__main__":
    main()
