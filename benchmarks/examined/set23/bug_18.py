"""Speculative decoding worker: planning of the next draft overlaps with verify."""
import torch
from torch import nn


class AttentionWorkspace:
    """Metadata buffers with fixed addresses, shared by the captured graphs."""

    def __init__(self, max_bs, max_context):
        self.max_bs = max_bs
        self.max_context = max_context
        self.seq_lens = torch.ones(max_bs, dtype=torch.long, device="cuda")
        self.kv_indices = torch.zeros(max_bs, max_context, dtype=torch.long, device="cuda")

    def plan(self, seq_lens, kv_indices):
        self.seq_lens.copy_(seq_lens, non_blocking=True)
        self.kv_indices.copy_(kv_indices, non_blocking=True)


class PagedAttention(nn.Module):
    def __init__(self, dim, slots, workspace):
        super().__init__()
        self.workspace = workspace
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.register_buffer("k_cache", torch.zeros(slots, dim))
        self.register_buffer("v_cache", torch.zeros(slots, dim))

    def forward(self, x):
        ws = self.workspace
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        last = ws.kv_indices.gather(1, (ws.seq_lens - 1).unsqueeze(1)).squeeze(1)
        self.k_cache.index_copy_(0, last, k)
        self.v_cache.index_copy_(0, last, v)
        keys, values = self.k_cache[ws.kv_indices], self.v_cache[ws.kv_indices]
        scores = torch.einsum("bd,bkd->bk", q, keys) / x.shape[-1] ** 0.5
        valid = torch.arange(ws.max_context, device=x.device) < ws.seq_lens.unsqueeze(1)
        scores = scores.masked_fill(~valid, float("-inf"))
        return x + self.out(torch.einsum("bk,bkd->bd", torch.softmax(scores, -1), values))


class GraphedModel:
    def __init__(self, vocab, dim, depth, slots, workspace):
        self.embed = nn.Embedding(vocab, dim).cuda().half()
        self.layers = nn.ModuleList(PagedAttention(dim, slots, workspace) for _ in range(depth)).cuda().half()
        self.head = nn.Linear(dim, vocab, bias=False).cuda().half()
        self.input_ids = torch.zeros(workspace.max_bs, dtype=torch.long, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self._run()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.next_ids = self._run()

    def _run(self):
        x = self.embed(self.input_ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x).argmax(-1)

    def replay(self, ids):
        self.input_ids.copy_(ids)
        self.graph.replay()
        return self.next_ids


class SpecWorkerV2:
    def __init__(self, max_bs=32, max_context=512, vocab=8000, dim=512):
        slots = max_bs * max_context
        self.workspace = AttentionWorkspace(max_bs, max_context)
        self.draft = GraphedModel(vocab, dim, 1, slots, self.workspace)
        self.target = GraphedModel(vocab, dim, 16, slots, self.workspace)
        self.table = torch.arange(slots).view(max_bs, max_context)
        self.plan_stream = torch.cuda.Stream()

    def prepare_draft(self, lens):
        """Plan the next draft on the plan stream; does not block the host."""
        seq_lens = torch.full((self.workspace.max_bs,), lens).pin_memory()
        kv_indices = self.table.roll(1, 0).contiguous().pin_memory()
        with torch.cuda.stream(self.plan_stream):
            self.workspace.plan(seq_lens, kv_indices)
            planned = torch.cuda.Event()
            planned.record()
        return planned

    def prepare_verify(self, lens):
        seq_lens = torch.full((self.workspace.max_bs,), lens).pin_memory()
        self.workspace.plan(seq_lens, self.table.pin_memory())

    def forward_step(self, ids, lens, planned):
        torch.cuda.current_stream().wait_event(planned)
        drafted = self.draft.replay(ids)
        self.prepare_verify(lens + 1)
        verified = self.target.replay(drafted)
        planned = self.prepare_draft(lens + 2)
        return verified.clone(), planned


@torch.inference_mode()
def generate(steps=200):
    worker = SpecWorkerV2()
    ids = torch.arange(worker.workspace.max_bs, device="cuda")
    torch.cuda.synchronize()
    planned = worker.prepare_draft(1)
    history = []
    for step in range(steps):
        ids, planned = worker.forward_step(ids, 1 + step, planned)
        history.append(ids)
    return torch.stack(history).tolist()


if __name__ == "__main__":
    print(len(generate()))
