import logging
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

import numpy as np
import torch

logger = logging.getLogger(__name__)


@dataclass
class TransferInfo:
    room: int
    session_id: str
    dst_kv_indices: np.ndarray


def group_concurrent_contiguous(src: np.ndarray, dst: np.ndarray) -> Tuple[List, List]:
    if src.size == 0:
        return [], []
    brk = np.where((np.diff(src) != 1) | (np.diff(dst) != 1))[0] + 1
    return [g.tolist() for g in np.split(src, brk)], [g.tolist() for g in np.split(dst, brk)]


def kv_to_page_indices(kv_indices: np.ndarray, page_size: int) -> np.ndarray:
    if page_size == 1:
        return kv_indices
    return kv_indices[::page_size] // page_size


class ReqToTokenPool:
    def __init__(self, size: int, max_context_len: int, device: torch.device):
        self.req_to_token = torch.zeros((size, max_context_len), dtype=torch.int32, device=device)

    def write(self, indices, values: torch.Tensor) -> None:
        self.req_to_token[indices] = values


class KVSender:
    def __init__(self, engine, kv_ptrs: List[int], item_lens: List[int], info: TransferInfo):
        self.engine = engine
        self.kv_ptrs = kv_ptrs
        self.item_lens = item_lens
        self.info = info
        self.sent = 0

    def send(self, page_indices: np.ndarray) -> int:
        dst = self.info.dst_kv_indices[self.sent:self.sent + page_indices.size]
        self.sent += page_indices.size
        src_groups, dst_groups = group_concurrent_contiguous(page_indices, dst)
        status = 0
        for ptr, item_len in zip(self.kv_ptrs, self.item_lens):
            for s, d in zip(src_groups, dst_groups):
                status |= self.engine.transfer_sync(
                    self.info.session_id, ptr + s[0] * item_len, d[0] * item_len, item_len * len(s)
                )
        return status


class SchedulerDisaggregationPrefill:
    def __init__(self, pool: ReqToTokenPool, page_size: int):
        self.req_to_token_pool = pool
        self.page_size = page_size
        self.senders: Dict[int, KVSender] = {}
        self.start_send_idx: Dict[int, int] = {}

    def prepare_for_extend(self, req_pool_idx: int, start: int, out_cache_loc: torch.Tensor) -> None:
        end = start + out_cache_loc.numel()
        self.req_to_token_pool.write(
            (req_pool_idx, slice(start, end)), out_cache_loc.to(torch.int32)
        )

    def send_kv_chunk(self, req_pool_idx: int, fill_len: int, last_chunk: bool) -> Optional[int]:
        start = self.start_send_idx.get(req_pool_idx, 0)
        end = fill_len
        if not last_chunk:
            end = end - end % self.page_size
        if end <= start:
            return None
        kv_indices = self.req_to_token_pool.req_to_token[req_pool_idx, start:end].to(
            "cpu", non_blocking=True
        )
        self.start_send_idx[req_pool_idx] = end
        page_indices = kv_to_page_indices(kv_indices.numpy(), self.page_size)
        if page_indices.size == 0:
            logger.info("skip empty chunk of request %d", req_pool_idx)
            return None
        return self.senders[req_pool_idx].send(page_indices)

    def process_batch(self, batch, model_runner) -> None:
        for req in batch:
            self.prepare_for_extend(req.req_pool_idx, req.start, req.out_cache_loc)
        model_runner.forward(batch)
        torch.cuda.current_stream().synchronize()
        for req in batch:
            self.send_kv_chunk(req.req_pool_idx, req.fill_len, req.is_last)
