from dataclasses import dataclass

import numpy as np
import torch


@dataclass
class AttentionMetadata:
    slot_mapping: torch.Tensor
    block_tables: torch.Tensor
    seq_lens: torch.Tensor
    max_seq_len: int


def async_tensor_h2d(data, dtype, target_device):
    t = torch.tensor(data, dtype=dtype, pin_memory=True, device="cpu")
    return t.to(device=target_device, non_blocking=True)


class AttentionMetadataBuilder:

    def __init__(self, block_size, device):
        self.block_size = block_size
        self.device = device

    def build(self, requests):
        slot_mapping = []
        seq_lens = []
        tables = []
        for req in requests:
            seq_lens.append(req.num_tokens)
            tables.append(req.block_ids)
            for pos in range(req.num_computed, req.num_tokens):
                block = req.block_ids[pos // self.block_size]
                slot_mapping.append(block * self.block_size + pos % self.block_size)
        width = max(len(t) for t in tables)
        padded = np.zeros((len(tables), width), dtype=np.int32)
        for row, t in zip(padded, tables):
            row[:len(t)] = t

        block_tables = torch.from_numpy(padded).pin_memory().to(self.device, non_blocking=True)
        return AttentionMetadata(
            slot_mapping=async_tensor_h2d(slot_mapping, torch.long, self.device),
            block_tables=block_tables,
            seq_lens=async_tensor_h2d(seq_lens, torch.int, self.device),
            max_seq_len=max(seq_lens),
        )


class Worker:

    def __init__(self, model, builder):
        self.model = model
        self.builder = builder

    @torch.inference_mode()
    def step(self, requests, input_ids):
        meta = self.builder.build(requests)
        ids = async_tensor_h2d(input_ids, torch.long, self.builder.device)
        return self.model(ids, meta).argmax(dim=-1).cpu()
