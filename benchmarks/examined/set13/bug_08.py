import functools
import logging

import torch
from cuda.bindings import runtime as cudart

logger = logging.getLogger(__name__)


def _check(err):
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"cuda error: {err}")


def batch_memcpy(dsts, srcs, sizes, stream_handle):
    kind = cudart.cudaMemcpyKind.cudaMemcpyDefault
    for dst, src, size in zip(dsts, srcs, sizes):
        (err,) = cudart.cudaMemcpyAsync(dst, src, size, kind, stream_handle)
        _check(err)


def _probe(device):
    n, chunk = 1 << 16, 1 << 12
    src = torch.arange(n, dtype=torch.int32).to(torch.uint8).pin_memory()
    dst = torch.zeros(n, dtype=torch.uint8, device=device)
    offsets = range(0, n, chunk)
    probe_stream = torch.cuda.Stream(device=device)
    batch_memcpy(
        [dst.data_ptr() + o for o in offsets],
        [src.data_ptr() + o for o in offsets],
        [chunk] * len(offsets),
        probe_stream.cuda_stream,
    )
    probe_stream.synchronize()
    if not torch.equal(dst.cpu(), src):
        raise RuntimeError("batch memcpy probe copied wrong bytes")


@functools.lru_cache(maxsize=None)
def load_batch_memcpy(device_index):
    device = torch.device("cuda", device_index)
    with torch.cuda.device(device):
        _probe(device)
    return batch_memcpy


class OffloadMoeCache:
    def __init__(self, host_experts, num_slots, device):
        self.host_experts = host_experts
        self.slots = torch.empty(num_slots, *host_experts.shape[1:], dtype=host_experts.dtype, device=device)
        self.copy_stream = torch.cuda.Stream(device=device)
        try:
            self._memcpy = load_batch_memcpy(torch.device(device).index or 0)
        except RuntimeError as e:
            logger.warning("falling back to full-layer copies: %s", e)
            self._memcpy = None

    def load(self, expert_ids):
        cur = torch.cuda.current_stream(self.slots.device)
        self.copy_stream.wait_stream(cur)
        with torch.cuda.stream(self.copy_stream):
            if self._memcpy is None:
                self.slots.copy_(self.host_experts[: self.slots.shape[0]], non_blocking=True)
            else:
                nbytes = self.slots[0].nbytes
                self._memcpy(
                    [self.slots[i].data_ptr() for i in range(len(expert_ids))],
                    [self.host_experts[e].data_ptr() for e in expert_ids],
                    [nbytes] * len(expert_ids),
                    self.copy_stream.cuda_stream,
                )
        cur.wait_stream(self.copy_stream)
        return self.slots[: len(expert_ids)]
