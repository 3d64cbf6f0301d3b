from dataclasses import dataclass

import cupy as cp
import numpy as np

_gather_kernel = cp.RawKernel(
    r"""
extern "C" __global__
void paged_mean(const float* kv, const int* indptr, const int* pages, float* out, int dim) {
    int b = blockIdx.x;
    for (int d = threadIdx.x; d < dim; d += blockDim.x) {
        float acc = 0.f;
        for (int i = indptr[b]; i < indptr[b + 1]; ++i) acc += kv[(size_t)pages[i] * dim + d];
        out[(size_t)b * dim + d] = acc / max(indptr[b + 1] - indptr[b], 1);
    }
}
""",
    "paged_mean",
)


@dataclass
class AttnParams:
    indptr: cp.ndarray
    pages: cp.ndarray
    batch: int


class FlashInferAttnParamsAllocator:
    def __init__(self, max_batch, max_pages):
        self.device_buf = cp.empty(max_batch + 1 + max_pages, dtype=cp.int32)

    def plan(self, page_tables, stream):
        batch = len(page_tables)
        indptr = np.zeros(batch + 1, dtype=np.int32)
        np.cumsum([len(p) for p in page_tables], out=indptr[1:])
        total = batch + 1 + int(indptr[-1])
        host = cp.cuda.alloc_pinned_memory(total * 4)
        packed = np.frombuffer(host, dtype=np.int32, count=total)
        packed[: batch + 1] = indptr
        packed[batch + 1 :] = np.concatenate(page_tables)
        cp.cuda.runtime.memcpyAsync(
            self.device_buf.data.ptr,
            host.ptr,
            total * 4,
            cp.cuda.runtime.memcpyHostToDevice,
            stream.ptr,
        )
        indptr_d = self.device_buf[: batch + 1]
        pages_d = self.device_buf[batch + 1 : total]
        return AttnParams(indptr_d, pages_d, batch)


class ModelRunner:
    def __init__(self, kv_cache, max_batch=256, max_pages=65536):
        self.kv_cache = kv_cache
        self.dim = kv_cache.shape[1]
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.decode_params = FlashInferAttnParamsAllocator(max_batch, max_pages)
        self.prefill_params = FlashInferAttnParamsAllocator(max_batch, max_pages)

    def _attend(self, params, out):
        args = (self.kv_cache, params.indptr, params.pages, out, np.int32(self.dim))
        _gather_kernel((params.batch,), (128,), args, stream=self.stream)

    def forward(self, decode_tables, prefill_tables):
        n = len(decode_tables) + len(prefill_tables)
        with self.stream:
            out = cp.empty((n, self.dim), dtype=cp.float32)
        decode = self.decode_params.plan(decode_tables, self.stream)
        self._attend(decode, out[: decode.batch])
        prefill = self.prefill_params.plan(prefill_tables, self.stream)
        self._attend(prefill, out[decode.batch :])
        return out.get(stream=self.stream)
