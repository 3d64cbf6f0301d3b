from dataclasses import dataclass
from typing import Iterable, List

import numpy as np
import torch


@dataclass
class CommonAttentionMetadata:
    num_reqs: int
    seq_lens_np: np.ndarray
    block_table: torch.Tensor


@dataclass
class PagedDecodeMetadata:
    paged_kv_indptr: torch.Tensor
    paged_kv_indices: torch.Tensor
    paged_kv_last_page_len: torch.Tensor
    num_reqs: int


class FlashInferMetadataBuilder:
    def __init__(self, max_num_reqs: int, max_num_pages: int, page_size: int, device: torch.device):
        self.page_size = page_size
        self.device = device
        self.paged_kv_indptr_cpu = torch.zeros(
            max_num_reqs + 1, dtype=torch.int32, device="cpu", pin_memory=False
        )
        self.paged_kv_indptr_np = self.paged_kv_indptr_cpu.numpy()
        self.paged_kv_last_page_len_cpu = torch.zeros(
            max_num_reqs, dtype=torch.int32, device="cpu", pin_memory=False
        )
        self.paged_kv_last_page_len_np = self.paged_kv_last_page_len_cpu.numpy()
        self.paged_kv_indptr = torch.zeros(max_num_reqs + 1, dtype=torch.int32, device=device)
        self.paged_kv_last_page_len = torch.zeros(max_num_reqs, dtype=torch.int32, device=device)
        self.paged_kv_indices = torch.zeros(max_num_pages, dtype=torch.int32, device=device)

    def _fill_indices(self, block_table: torch.Tensor, num_blocks_np: np.ndarray, n: int) -> None:
        row = torch.repeat_interleave(
            torch.arange(n, device=self.device),
            self.paged_kv_indptr[1 : n + 1] - self.paged_kv_indptr[:n],
            output_size=int(num_blocks_np.sum()),
        )
        total = row.numel()
        col = torch.arange(total, device=self.device) - self.paged_kv_indptr[row]
        self.paged_kv_indices[:total] = block_table[row, col]

    def build(self, common: CommonAttentionMetadata) -> PagedDecodeMetadata:
        n = common.num_reqs
        num_blocks_np = (common.seq_lens_np + (self.page_size - 1)) // self.page_size

        np.cumsum(num_blocks_np, dtype=np.int32, out=self.paged_kv_indptr_np[1 : n + 1])
        self.paged_kv_indptr[: n + 1].copy_(self.paged_kv_indptr_cpu[: n + 1], non_blocking=True)

        last = common.seq_lens_np % self.page_size
        self.paged_kv_last_page_len_np[:n] = np.where(last == 0, self.page_size, last)
        self.paged_kv_last_page_len[:n].copy_(
            self.paged_kv_last_page_len_cpu[:n], non_blocking=True
        )
        self._fill_indices(common.block_table, num_blocks_np, n)
        return PagedDecodeMetadata(
            self.paged_kv_indptr[: n + 1], self.paged_kv_indices, self.paged_kv_last_page_len[:n], n
        )


class DecodeLoop:
    def __init__(self, builder: FlashInferMetadataBuilder, model, block_table: torch.Tensor):
        self.builder = builder
        self.model = model
        self.block_table = block_table

    @torch.inference_mode()
    def run(self, seq_lens: Iterable[np.ndarray], tokens: torch.Tensor) -> List[torch.Tensor]:
        outputs = []
        for seq_lens_np in seq_lens:
            common = CommonAttentionMetadata(len(seq_lens_np), seq_lens_np, self.block_table)
            metadata = self.builder.build(common)
            tokens = self.model(tokens, metadata).argmax(-1)
            outputs.append(tokens)
        return outputs
