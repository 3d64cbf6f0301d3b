"""Speculative-decode metadata uploads: raw async copies out of registered host arrays."""
import ctypes
from collections import deque

import numpy as np
import torch
from cuda.bindings import runtime as cudart


def _check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(err)
    return rest[0] if rest else None


class HostArray:
    """Page-locked int32 array whose memory is released explicitly."""

    def __init__(self, values):
        self.nbytes = values.size * 4
        self.ptr = _check(cudart.cudaMallocHost(self.nbytes))
        view = (ctypes.c_int32 * values.size).from_address(int(self.ptr))
        np.frombuffer(view, dtype=np.int32)[:] = values

    def release(self):
        if self.ptr is not None:
            _check(cudart.cudaFreeHost(self.ptr))
            self.ptr = None


class MetadataUploader:
    def __init__(self, device, max_tokens):
        self.device = device
        self.max_tokens = max_tokens
        self._inflight = deque()

    def _reclaim(self, block=False):
        while self._inflight:
            event, sources = self._inflight[0]
            if block:
                event.synchronize()
            elif not event.query():
                return
            self._inflight.popleft()
            for source in sources:
                source.release()

    def _upload(self, values, stream):
        source = HostArray(values)
        dst = torch.empty(values.size, dtype=torch.int32, device=self.device)
        _check(
            cudart.cudaMemcpyAsync(
                dst.data_ptr(),
                source.ptr,
                source.nbytes,
                cudart.cudaMemcpyKind.cudaMemcpyHostToDevice,
                stream.cuda_stream,
            )
        )
        return source, dst

    def calc_spec_decode_metadata(self, num_draft_tokens):
        self._reclaim()
        stream = torch.cuda.current_stream(self.device)
        cu_draft = np.cumsum(num_draft_tokens, dtype=np.int32)
        sampled = num_draft_tokens + 1
        cu_sampled = np.cumsum(sampled, dtype=np.int32)
        bonus = cu_sampled - 1
        target = np.concatenate(
            [np.arange(n, dtype=np.int32) + start for n, start in zip(num_draft_tokens, cu_sampled - sampled)]
        )
        sources, tensors = zip(
            *(self._upload(v.astype(np.int32), stream) for v in (cu_draft, cu_sampled, bonus, target))
        )
        event = torch.cuda.Event()
        event.record(stream)
        self._inflight.append((event, sources))
        return tensors

    def close(self):
        self._reclaim(block=True)


def verify_step(uploader, logits, num_draft_tokens):
    cu_draft, cu_sampled, bonus, target = uploader.calc_spec_decode_metadata(num_draft_tokens)
    target_logits = logits.index_select(0, target.long())
    bonus_logits = logits.index_select(0, bonus.long())
    return target_logits.argmax(-1), bonus_logits.argmax(-1), cu_draft, cu_sampled


if __name__ == "__main__":
    up = MetadataUploader(torch.device("cuda"), 4096)
    rng = np.random.default_rng(0)
    for _ in range(64):
        counts = rng.integers(1, 5, size=32).astype(np.int32)
        rows = int((counts + 1).sum())
        verify_step(up, torch.randn(rows, 32000, device="cuda"), counts)
    up.close()
