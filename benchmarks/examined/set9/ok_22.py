from typing import List

import torch


class SSDBackend:
    """Host-side store of embedding rows."""

    def __init__(self, num_rows: int, dim: int):
        self.rows = torch.zeros(num_rows, dim, pin_memory=True)

    def set_cuda(self, indices_cpu: torch.Tensor, weights_cpu: torch.Tensor, ready: torch.cuda.Event):
        ready.synchronize()
        self.rows[indices_cpu] = weights_cpu


class SSDTableBatchedEmbeddingBags(torch.nn.Module):
    """Cache of embedding rows with pipelined write-back of the evicted rows."""

    def __init__(self, num_rows: int, dim: int, cache_slots: int, max_evict: int, device="cuda"):
        super().__init__()
        self.backend = SSDBackend(num_rows, dim)
        self.lxu_cache_weights = torch.zeros(cache_slots, dim, device=device)
        low_priority, _ = torch.cuda.Stream.priority_range()
        self.ssd_eviction_stream = torch.cuda.Stream(priority=low_priority)
        # Two sets: iteration n only has to wait for the eviction of iteration n - 2
        self.lxu_cache_evicted_weights: List[torch.Tensor] = [
            torch.empty(max_evict, dim, device=device) for _ in range(2)
        ]
        self.evicted_weights_cpu: List[torch.Tensor] = [
            torch.empty(max_evict, dim, pin_memory=True) for _ in range(2)
        ]
        self.ssd_event_cache_evict = [torch.cuda.Event() for _ in range(2)]
        self.ssd_event_d2h_done = [torch.cuda.Event() for _ in range(2)]
        self._evict_buf_idx = 0
        self._pending = []

    def _flush_pending(self, limit: int):
        while len(self._pending) > limit:
            indices, evict_idx, count = self._pending.pop(0)
            self.backend.set_cuda(
                indices, self.evicted_weights_cpu[evict_idx][:count], self.ssd_event_d2h_done[evict_idx]
            )

    def _prefetch(self, new_rows: torch.Tensor, slots: torch.Tensor, evicted_indices_cpu: torch.Tensor):
        evict_idx = self._evict_buf_idx
        current_stream = torch.cuda.current_stream()
        self._flush_pending(limit=1)

        # An event that was never recorded does not block
        current_stream.wait_event(self.ssd_event_cache_evict[evict_idx])
        count = slots.numel()
        evicted = self.lxu_cache_evicted_weights[evict_idx][:count]
        torch.index_select(self.lxu_cache_weights, 0, slots, out=evicted)
        self.lxu_cache_weights.index_copy_(0, slots, new_rows)

        self.ssd_eviction_stream.wait_stream(current_stream)
        with torch.cuda.stream(self.ssd_eviction_stream):
            self.evicted_weights_cpu[evict_idx][:count].copy_(evicted, non_blocking=True)
            self.ssd_event_d2h_done[evict_idx].record(self.ssd_eviction_stream)
            self.ssd_event_cache_evict[evict_idx].record(self.ssd_eviction_stream)
        self._pending.append((evicted_indices_cpu, evict_idx, count))
        self._evict_buf_idx = 1 - evict_idx

    def forward(self, slots: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding_bag(slots, self.lxu_cache_weights, offsets, mode="sum")

    def flush(self):
        self._flush_pending(limit=0)
