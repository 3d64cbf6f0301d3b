"""Split-KV decode attention with a host-side work planner."""
import math

import torch


class DecodePlan:
    def __init__(self, chunks, request_of_chunk, starts):
        self.chunks = chunks
        self.request_of_chunk = request_of_chunk
        self.starts = starts


class BatchDecodeWrapper:
    def __init__(self, page_size, target_chunk=512, device="cuda"):
        self.page_size = page_size
        self.target_chunk = target_chunk
        self.device = device
        self._plan = None

    def plan(self, indptr, last_page_len, indices):
        indptr_host = indptr.to("cpu", non_blocking=True)
        last_host = last_page_len.to("cpu", non_blocking=True)
        bounds = indptr_host.tolist()
        tails = last_host.tolist()
        request_of_chunk, starts, lengths = [], [], []
        for r, tail in enumerate(tails):
            pages = bounds[r + 1] - bounds[r]
            tokens = max(0, (pages - 1) * self.page_size + tail)
            for c in range(math.ceil(tokens / self.target_chunk)):
                start = c * self.target_chunk
                request_of_chunk.append(r)
                starts.append(bounds[r] * self.page_size + start)
                lengths.append(min(self.target_chunk, tokens - start))
        self._indices = indices
        self._plan = DecodePlan(lengths, request_of_chunk, starts)

    def run(self, q, kv):
        plan = self._plan
        batch, dim = q.shape
        tokens = kv[self._indices].view(-1, dim)
        out = torch.zeros(batch, dim, device=q.device)
        norm = torch.zeros(batch, 1, device=q.device)
        for r, start, length in zip(plan.request_of_chunk, plan.starts, plan.chunks):
            block = tokens[start:start + length]
            weight = torch.exp(block @ q[r] / math.sqrt(dim))
            out[r] += weight @ block
            norm[r] += weight.sum()
        return out / norm.clamp_min(1e-6)


def build_batch(lengths, page_size, device):
    lens = torch.tensor(lengths, device=device)
    pages = (lens + page_size - 1) // page_size
    indptr = torch.zeros(len(lengths) + 1, dtype=torch.int64, device=device)
    indptr[1:] = torch.cumsum(pages, 0)
    last = lens - (pages - 1) * page_size
    return indptr, last


def main():
    page, dim = 16, 128
    kv = torch.randn(4096, page, dim, device="cuda") * 0.1
    wrapper = BatchDecodeWrapper(page)
    for step in range(4):
        lengths = [700 + step, 1333 + step, 90 + step, 2048 + step]
        indices = torch.arange(1024, device="cuda")
        indptr, last = build_batch(lengths, page, "cuda")
        wrapper.plan(indptr, last, indices)
        q = torch.randn(len(lengths), dim, device="cuda")
        print(wrapper.run(q, kv).norm().item())


if __name__ == "__main__":
    main()
