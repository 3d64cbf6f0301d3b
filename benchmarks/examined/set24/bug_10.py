import numpy as np
import torch


class InputBatch:
    def __init__(self, max_reqs, device):
        self.num_computed = torch.zeros(max_reqs, dtype=torch.int32, device=device)
        self.query_lens = torch.zeros(max_reqs, dtype=torch.int32, device=device)
        self.num_reqs = 0

    def load(self, computed, query):
        n = self.num_reqs = len(query)
        self.num_computed[:n] = torch.tensor(computed, dtype=torch.int32).to(self.num_computed.device)
        self.query_lens[:n] = torch.tensor(query, dtype=torch.int32).to(self.query_lens.device)


class AttentionMetadataBuilder:
    def __init__(self, block_size):
        self.block_size = block_size

    def build(self, batch: InputBatch):
        n = batch.num_reqs
        seq_lens = batch.num_computed[:n] + batch.query_lens[:n]
        query_start = torch.cumsum(batch.query_lens[:n], 0)
        seq_lens_cpu = seq_lens.to("cpu", non_blocking=True)
        query_start_cpu = query_start.to("cpu", non_blocking=True)
        num_blocks = (seq_lens_cpu.numpy() + self.block_size - 1) // self.block_size
        return {
            "seq_lens": seq_lens,
            "query_start": query_start,
            "query_start_list": query_start_cpu.tolist(),
            "num_blocks": num_blocks,
            "max_seq_len": int(seq_lens_cpu.max()),
        }


class ModelRunner:
    def __init__(self, model, max_reqs, num_blocks, block_size, device="cuda"):
        self.model = model
        self.device = torch.device(device)
        self.batch = InputBatch(max_reqs, self.device)
        self.builder = AttentionMetadataBuilder(block_size)
        self.free_blocks = list(range(num_blocks))

    def _dummy_run(self, num_tokens, num_reqs):
        per_req = num_tokens // num_reqs
        self.batch.load([0] * num_reqs, [per_req] * num_reqs)
        return self._run(torch.zeros(num_tokens, dtype=torch.int64, device=self.device))

    @torch.inference_mode()
    def _run(self, input_ids):
        meta = self.builder.build(self.batch)
        tables = np.zeros((self.batch.num_reqs, int(meta["num_blocks"].max())), dtype=np.int32)
        cursor = 0
        for row, n in enumerate(meta["num_blocks"]):
            tables[row, :n] = self.free_blocks[cursor : cursor + n]
            cursor += n
        block_tables = torch.from_numpy(tables).to(self.device)
        hidden = self.model(input_ids, block_tables, meta["seq_lens"], meta["max_seq_len"])
        last = meta["query_start"].long() - 1
        return hidden[last]

    def profile_run(self, max_tokens):
        for reqs in (1, 4, 16):
            self._dummy_run(max_tokens, reqs)
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated()
