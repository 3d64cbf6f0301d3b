import numpy as np
import torch
from torch import nn


class DecodeInputBatch:
    """Host staging for the inputs of a captured decode step."""

    def __init__(self, max_bs, max_blocks):
        self.ids = torch.zeros(max_bs, dtype=torch.int64, pin_memory=True)
        self.positions = torch.zeros(max_bs, dtype=torch.int64, pin_memory=True)
        self.slots = torch.full((max_bs,), -1, dtype=torch.int64, pin_memory=True)
        self.tables = torch.full((max_bs, max_blocks), -1, dtype=torch.int32, pin_memory=True)
        self.np_ids = self.ids.numpy()
        self.np_positions = self.positions.numpy()
        self.np_slots = self.slots.numpy()
        self.np_tables = self.tables.numpy()

    def pack(self, seqs, bucket):
        n = len(seqs)
        for i, seq in enumerate(seqs):
            self.np_ids[i] = seq.tokens[-1]
            self.np_positions[i] = len(seq.tokens) - 1
            self.np_slots[i] = seq.blocks[-1] * 16 + (len(seq.tokens) - 1) % 16
            self.np_tables[i, : len(seq.blocks)] = seq.blocks
        self.np_ids[n:bucket] = 0
        self.np_positions[n:bucket] = 0
        self.np_slots[n:bucket] = -1
        self.np_tables[n:bucket] = -1

    def upload(self, graph_vars, bucket):
        graph_vars["ids"][:bucket].copy_(self.ids[:bucket], non_blocking=True)
        graph_vars["positions"][:bucket].copy_(self.positions[:bucket], non_blocking=True)
        graph_vars["slots"][:bucket].copy_(self.slots[:bucket], non_blocking=True)
        graph_vars["tables"][:bucket].copy_(self.tables[:bucket], non_blocking=True)


class Sequence:
    def __init__(self, tokens, blocks):
        self.tokens = list(tokens)
        self.blocks = list(blocks)


class ModelRunner:
    def __init__(self, model: nn.Module, lm_head: nn.Module, buckets, max_blocks, hidden):
        self.model, self.lm_head = model, lm_head
        max_bs = max(buckets)
        self.vars = dict(
            ids=torch.zeros(max_bs, dtype=torch.int64, device="cuda"),
            positions=torch.zeros(max_bs, dtype=torch.int64, device="cuda"),
            slots=torch.full((max_bs,), -1, dtype=torch.int64, device="cuda"),
            tables=torch.full((max_bs, max_blocks), -1, dtype=torch.int32, device="cuda"),
            hidden=torch.zeros(max_bs, hidden, device="cuda"),
        )
        self.batch = DecodeInputBatch(max_bs, max_blocks)
        self.buckets = sorted(buckets)
        self.graphs = {}
        pool = None
        for bs in reversed(self.buckets):
            self._forward(bs)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool):
                self._forward(bs)
            pool = pool or graph.pool()
            self.graphs[bs] = graph

    def _forward(self, bs):
        v = self.vars
        v["hidden"][:bs] = self.model(v["ids"][:bs], v["positions"][:bs], v["slots"][:bs], v["tables"][:bs])

    @torch.inference_mode()
    def step(self, seqs):
        bucket = next(b for b in self.buckets if b >= len(seqs))
        self.batch.pack(seqs, bucket)
        self.batch.upload(self.vars, bucket)
        self.graphs[bucket].replay()
        logits = self.lm_head(self.vars["hidden"][: len(seqs)])
        return torch.argmax(logits, dim=-1).tolist()


def generate(runner, seqs, max_tokens, eos):
    live = list(seqs)
    for _ in range(max_tokens):
        if not live:
            break
        for seq, tok in zip(live, runner.step(live)):
            seq.tokens.append(tok)
        live = [s for s in live if s.tokens[-1] != eos]
    return [np.asarray(s.tokens) for s in seqs]
