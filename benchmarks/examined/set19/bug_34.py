"""Full-graph decode: model forward captured per batch size, paged KV cache."""
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

BLOCK, MAX_BLOCKS = 16, 8

_forward_context = None


@dataclass
class AttentionMetadata:
    slot_mapping: torch.Tensor
    block_table: torch.Tensor
    seq_lens: torch.Tensor


@contextmanager
def set_forward_context(metadata):
    global _forward_context
    previous, _forward_context = _forward_context, metadata
    try:
        yield
    finally:
        _forward_context = previous


class PagedAttention(nn.Module):
    def __init__(self, width, num_blocks):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.register_buffer("keys", torch.zeros(num_blocks * BLOCK, width))
        self.register_buffer("values", torch.zeros(num_blocks * BLOCK, width))

    def forward(self, h):
        meta = _forward_context
        q, k, v = self.qkv(h).chunk(3, dim=-1)
        self.keys.index_copy_(0, meta.slot_mapping, k)
        self.values.index_copy_(0, meta.slot_mapping, v)
        offsets = torch.arange(BLOCK, device=h.device)
        slots = (meta.block_table.unsqueeze(-1) * BLOCK + offsets).flatten(1)
        scores = torch.einsum("bd,bsd->bs", q, self.keys[slots]) * h.shape[-1] ** -0.5
        span = torch.arange(slots.shape[1], device=h.device)
        scores = scores.masked_fill(span >= meta.seq_lens.unsqueeze(-1), float("-inf"))
        return torch.einsum("bs,bsd->bd", scores.softmax(-1), self.values[slots])


class DecoderLM(nn.Module):
    def __init__(self, vocab, width, layers, num_blocks):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(PagedAttention(width, num_blocks) for _ in range(layers))
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, input_ids):
        h = self.embed(input_ids)
        for layer in self.layers:
            h = h + layer(h)
        return self.head(h)


class CUDAGraphWrapper:
    """Captures the runnable once per batch size and replays it afterwards."""

    def __init__(self, runnable):
        self.runnable = runnable
        self.entries = {}

    def __call__(self, input_ids):
        entry = self.entries.get(input_ids.shape[0])
        if entry is None:
            self.runnable(input_ids)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                output = self.runnable(input_ids)
            entry = (graph, output, _forward_context)
            self.entries[input_ids.shape[0]] = entry
        graph, output, _ = entry
        graph.replay()
        return output


class ModelRunner:
    def __init__(self, model, batch):
        self.model = CUDAGraphWrapper(model)
        self.batch = batch
        self.input_ids = torch.zeros(batch, dtype=torch.long, device="cuda")
        self.tables = torch.arange(batch * MAX_BLOCKS).view(batch, MAX_BLOCKS)

    def _build_metadata(self, position):
        block = self.tables[:, position // BLOCK]
        slots = block * BLOCK + position % BLOCK
        lens = torch.full((self.batch,), position + 1)
        return AttentionMetadata(slots.cuda(), self.tables.cuda(), lens.cuda())

    def generate(self, tokens, steps):
        history = []
        for position in range(steps):
            self.input_ids.copy_(tokens)
            with set_forward_context(self._build_metadata(position)):
                logits = self.model(self.input_ids)
            tokens = logits.argmax(dim=-1)
            history.append(tokens)
        return torch.stack(history, dim=1)


@torch.no_grad()
def main():
    torch.manual_seed(0)
    batch = 8
    model = DecoderLM(1000, 256, 4, batch * MAX_BLOCKS).cuda()
    print(ModelRunner(model, batch).generate(torch.arange(batch, device="cuda"), 64)[0].tolist())


if __name__ == "__main__":
    main()
