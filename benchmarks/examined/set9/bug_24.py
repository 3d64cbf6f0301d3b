from dataclasses import dataclass, field
from typing import Dict, List

import torch


class KVCacheManagerImpl:
    """Keeps the block table of each sequence."""

    def __init__(self, max_blocks_per_seq: int):
        self.max_blocks_per_seq = max_blocks_per_seq
        self.tables: Dict[int, List[int]] = {}

    def copy_batch_block_offsets(self, dst: torch.Tensor, request_ids: List[int], beam_width: int, offset: int):
        for i, request_id in enumerate(request_ids):
            blocks = torch.tensor(self.tables[request_id], dtype=torch.int32)
            for pool_idx in range(dst.shape[0]):
                dst[pool_idx, offset + i * beam_width, 0, : len(blocks)] = blocks * 2
                dst[pool_idx, offset + i * beam_width, 1, : len(blocks)] = blocks * 2 + 1


@dataclass
class ScheduledRequests:
    context_requests: List[int] = field(default_factory=list)
    generation_requests: List[int] = field(default_factory=list)


class KVCacheManager:
    def __init__(self, num_pools: int, max_batch_size: int, max_blocks_per_seq: int):
        self.impl = KVCacheManagerImpl(max_blocks_per_seq)
        self.host_kv_cache_block_offsets = torch.empty(
            num_pools, max_batch_size, 2, max_blocks_per_seq, dtype=torch.int32, pin_memory=True, device="cpu"
        )

    def copy_batch_block_offsets(
        self, dst_tensor: torch.Tensor, request_ids: List[int], beam_width: int, num_context: int, num_seqs: int
    ):
        self.impl.copy_batch_block_offsets(self.host_kv_cache_block_offsets, request_ids[:num_context], 1, 0)
        self.impl.copy_batch_block_offsets(
            self.host_kv_cache_block_offsets, request_ids[num_context:], beam_width, num_context
        )

        for pool_idx in range(self.host_kv_cache_block_offsets.shape[0]):
            dst_tensor[pool_idx, :num_seqs].copy_(
                self.host_kv_cache_block_offsets[pool_idx, :num_seqs], non_blocking=True
            )


class PyExecutor:
    """Overlap scheduler: the host prepares step n + 1 while step n runs on the device."""

    def __init__(self, model, sampler, kv_cache_manager: KVCacheManager, max_batch_size: int):
        self.model = model
        self.sampler = sampler
        self.kv_cache_manager = kv_cache_manager
        host = kv_cache_manager.host_kv_cache_block_offsets
        self.kv_cache_block_offsets = torch.empty_like(host, device="cuda")
        self.previous_batch = None

    def _forward_step(self, scheduled: ScheduledRequests, new_tokens_device):
        request_ids = scheduled.context_requests + scheduled.generation_requests
        self.kv_cache_manager.copy_batch_block_offsets(
            self.kv_cache_block_offsets, request_ids, 1, len(scheduled.context_requests), len(request_ids)
        )
        logits = self.model(new_tokens_device, self.kv_cache_block_offsets)
        return self.sampler.sample_async(logits)

    def _executor_loop_overlap(self, scheduler):
        new_tokens_device = None
        while (scheduled := scheduler.schedule()) is not None:
            sample_state = self._forward_step(scheduled, new_tokens_device)
            new_tokens_device = sample_state.device.new_tokens
            if self.previous_batch is not None:
                prev_requests, prev_state = self.previous_batch
                prev_state.sampler_event.synchronize()
                scheduler.update(prev_requests, prev_state.host.new_tokens.tolist())
            self.previous_batch = (scheduled, sample_state)
