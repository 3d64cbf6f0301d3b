from typing import Dict, List

import torch


class SamplerBuffers:
    """Per-request sampling state in master slots; each step gathers its rows before the graph."""

    def __init__(self, max_batch_size: int, num_slots: int, device="cuda"):
        self.max_batch_size = max_batch_size
        self._rid_to_slot: Dict[str, int] = {}
        self._free_slots = list(range(1, num_slots))
        self._master_temperature = torch.ones(num_slots, device=device)
        self._master_top_p = torch.ones(num_slots, device=device)
        self._master_seed = torch.zeros(num_slots, dtype=torch.int64, device=device)
        self.temperature_buf = torch.ones(max_batch_size, device=device)
        self.top_p_buf = torch.ones(max_batch_size, device=device)
        self.seed_buf = torch.zeros(max_batch_size, dtype=torch.int64, device=device)
        self._slot_idx_cpu = torch.zeros(max_batch_size, dtype=torch.int64, pin_memory=True)
        self._slot_idx_gpu = torch.zeros(max_batch_size, dtype=torch.int64, device=device)

    def register(self, rid: str, temperature: float, top_p: float, seed: int):
        slot = self._free_slots.pop()
        self._rid_to_slot[rid] = slot
        self._master_temperature[slot] = temperature
        self._master_top_p[slot] = top_p
        self._master_seed[slot] = seed

    def gather_for_request_ids(self, request_ids: List[str], padded_bs: int):
        assert padded_bs <= self.max_batch_size
        for i, rid in enumerate(request_ids):
            self._slot_idx_cpu[i] = self._rid_to_slot.get(rid, 0)
        for i in range(len(request_ids), padded_bs):
            self._slot_idx_cpu[i] = 0

        # Single async H2D (pinned) of the slot indices.
        idx_view = self._slot_idx_gpu[:padded_bs]
        idx_view.copy_(self._slot_idx_cpu[:padded_bs], non_blocking=True)

        torch.index_select(self._master_temperature, 0, idx_view, out=self.temperature_buf[:padded_bs])
        torch.index_select(self._master_top_p, 0, idx_view, out=self.top_p_buf[:padded_bs])
        torch.index_select(self._master_seed, 0, idx_view, out=self.seed_buf[:padded_bs])


class PiecewiseCudaGraphRunner:
    def __init__(self, regions, sampler: SamplerBuffers, max_bs: int, hidden: int):
        self.regions = regions
        self.sampler = sampler
        self.hidden = torch.zeros(max_bs, hidden, device="cuda")
        self.out_tokens = torch.zeros(max_bs, dtype=torch.int64, device="cuda")
        self.graphs = []

    def capture(self):
        for region in self.regions:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                region(self.hidden, self.sampler, self.out_tokens)
            self.graphs.append(graph)

    def plan(self, request_ids: List[str], padded_bs: int):
        self.sampler.gather_for_request_ids(request_ids, padded_bs)

    def step(self, request_ids: List[str], embeds: torch.Tensor, padded_bs: int):
        self.plan(request_ids, padded_bs)
        self.hidden[: embeds.shape[0]].copy_(embeds)
        for graph in self.graphs:
            graph.replay()
        return self.out_tokens[: len(request_ids)].clone()


def prefill(runner: PiecewiseCudaGraphRunner, chunks):
    tokens = [runner.step(rids, embeds, padded_bs) for rids, embeds, padded_bs in chunks]
    return torch.cat(tokens)
