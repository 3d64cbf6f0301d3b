"""Attention metadata builder for a paged KV cache with a decode path under CUDA graphs."""
from dataclasses import dataclass

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def _copy_page_indices_kernel(page_indices, block_table, block_table_stride, cu_num_blocks, BLOCK_SIZE: tl.constexpr):
    req_idx = tl.program_id(0)
    row_ptr = block_table + req_idx * block_table_stride
    start_idx = tl.load(cu_num_blocks + req_idx)
    num_blocks = tl.load(cu_num_blocks + req_idx + 1) - start_idx
    offset = tl.arange(0, BLOCK_SIZE)
    for i in tl.range(0, num_blocks, BLOCK_SIZE):
        block_ids = tl.load(row_ptr + i + offset, mask=i + offset < num_blocks)
        tl.store(page_indices + start_idx + i + offset, block_ids, mask=i + offset < num_blocks)


@dataclass
class CommonAttentionMetadata:
    num_reqs: int
    num_decodes: int
    seq_lens_np: np.ndarray
    block_table: torch.Tensor


@dataclass
class FlashInferMetadata:
    num_decodes: int
    paged_kv_indptr: torch.Tensor
    paged_kv_indices: torch.Tensor
    paged_kv_last_page_len: torch.Tensor


class FlashInferMetadataBuilder:
    def __init__(self, max_num_reqs: int, max_num_pages: int, page_size: int, cudagraph_batch_sizes,
                 decode_wrapper, device: torch.device):
        self.page_size = page_size
        self.device = device
        self.decode_wrapper = decode_wrapper
        self.cudagraph_batch_sizes = sorted(cudagraph_batch_sizes)
        self.paged_kv_indptr_cpu = torch.zeros(max_num_reqs + 1, dtype=torch.int32, pin_memory=True)
        self.paged_kv_indptr_np = self.paged_kv_indptr_cpu.numpy()
        self.paged_kv_indptr_staging = torch.zeros(max_num_reqs + 1, dtype=torch.int32, pin_memory=True)
        self.paged_kv_indptr = torch.zeros(max_num_reqs + 1, dtype=torch.int32, device=device)
        self.paged_kv_indices = torch.zeros(max_num_pages, dtype=torch.int32, device=device)
        self.last_page_len_cpu = torch.zeros(max_num_reqs, dtype=torch.int32, pin_memory=True)
        self.last_page_len = torch.zeros(max_num_reqs, dtype=torch.int32, device=device)
        self.copies_done = torch.cuda.Event()

    def _padded_batch(self, num_decodes: int) -> int:
        for size in self.cudagraph_batch_sizes:
            if size >= num_decodes:
                return size
        return num_decodes

    def build(self, meta: CommonAttentionMetadata) -> FlashInferMetadata:
        num_reqs, num_decodes = meta.num_reqs, meta.num_decodes
        num_blocks_np = (meta.seq_lens_np[:num_reqs] + (self.page_size - 1)) // self.page_size

        # the copies of the previous step read the pinned buffers
        self.copies_done.synchronize()
        np.cumsum(num_blocks_np, dtype=np.int32, out=self.paged_kv_indptr_np[1 : num_reqs + 1])
        paged_kv_indptr = self.paged_kv_indptr[: num_reqs + 1]
        # paged_kv_indptr_cpu is changed below (for cuda graphs), the copy reads a buffer of its own
        self.paged_kv_indptr_staging[: num_reqs + 1] = self.paged_kv_indptr_cpu[: num_reqs + 1]
        paged_kv_indptr.copy_(self.paged_kv_indptr_staging[: num_reqs + 1], non_blocking=True)

        last_page_len_np = meta.seq_lens_np[:num_reqs] % self.page_size
        self.last_page_len_cpu.numpy()[:num_reqs] = np.where(last_page_len_np == 0, self.page_size, last_page_len_np)
        last_page_len = self.last_page_len[:num_reqs]
        last_page_len.copy_(self.last_page_len_cpu[:num_reqs], non_blocking=True)
        self.copies_done.record()

        num_pages = int(self.paged_kv_indptr_np[num_reqs])
        paged_kv_indices = self.paged_kv_indices[:num_pages]
        _copy_page_indices_kernel[(num_reqs,)](
            paged_kv_indices, meta.block_table, meta.block_table.stride(0), paged_kv_indptr, BLOCK_SIZE=1024,
        )

        if num_decodes > 0:
            batch = self._padded_batch(num_decodes)
            # for cuda graphs: requests that pad the batch have no pages
            self.paged_kv_indptr_cpu[num_decodes + 1 : batch + 1] = self.paged_kv_indptr_cpu[num_decodes]
            self.decode_wrapper.plan(
                self.paged_kv_indptr_cpu[: batch + 1], paged_kv_indices, self.last_page_len_cpu[:num_decodes],
            )
        return FlashInferMetadata(num_decodes, paged_kv_indptr, paged_kv_indices, last_page_len)
