"""Paged-attention decode wrapper: plan() stages the metadata, run() replays a captured graph."""
import numpy as np
import torch


class DecodePlan:
    def __init__(self, max_batch, max_pages, device):
        self.indptr_host = torch.zeros(max_batch + 1, dtype=torch.int32, pin_memory=True)
        self.pages_host = torch.zeros(max_pages, dtype=torch.int32, pin_memory=True)
        self.indptr = torch.zeros(max_batch + 1, dtype=torch.int32, device=device)
        self.pages = torch.zeros(max_pages, dtype=torch.int32, device=device)

    def plan(self, page_lists):
        counts = np.fromiter((len(p) for p in page_lists), dtype=np.int32, count=len(page_lists))
        indptr = self.indptr_host.numpy()
        indptr[1:len(counts) + 1] = np.cumsum(counts)
        indptr[len(counts) + 1:] = indptr[len(counts)]
        flat = np.concatenate([np.asarray(p, dtype=np.int32) for p in page_lists])
        self.pages_host.numpy()[: flat.size] = flat
        self.indptr.copy_(self.indptr_host, non_blocking=True)
        self.pages.copy_(self.pages_host, non_blocking=True)


class DecodeWrapper:
    def __init__(self, cache, max_batch, hidden, device="cuda"):
        self.cache = cache
        self.plan_state = DecodePlan(max_batch, cache.shape[0], device)
        self.query = torch.zeros(max_batch, hidden, device=device)
        self.out = torch.zeros(max_batch, hidden, device=device)
        self.graph = None

    def _attend(self):
        p = self.plan_state
        scores = self.query @ self.cache[p.pages.long()].mean(1).t()
        col = torch.arange(p.pages.numel(), device=scores.device)
        mask = (col >= p.indptr[:-1, None]) & (col < p.indptr[1:, None])
        probs = scores.masked_fill(~mask, -1e9).softmax(-1)
        self.out.copy_(probs @ self.cache[p.pages.long()].mean(1))

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._attend()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._attend()

    def step(self, query, page_lists):
        self.plan_state.plan(page_lists)
        self.query[: query.shape[0]].copy_(query)
        self.graph.replay()
        return self.out[: query.shape[0]].clone()


class OverlapScheduler:
    def __init__(self, wrapper, proj):
        self.wrapper, self.proj = wrapper, proj

    @torch.inference_mode()
    def generate(self, query, page_lists, steps, allocate):
        hidden = []
        for step in range(steps):
            query = self.proj(self.wrapper.step(query, page_lists))
            hidden.append(query)
            page_lists = [p + allocate(i, step) for i, p in enumerate(page_lists)]
        return torch.stack(hidden)
