import torch
import torch.nn.functional as F


class CUDAGraphWrapper:
    """Captures a piece of the model once per batch size and replays it afterwards."""

    def __init__(self, fn, pool):
        self.fn = fn
        self.pool = pool
        self.entries = {}

    def __call__(self, num_tokens, *args):
        entry = self.entries.get(num_tokens)
        if entry is None:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self.fn(*args)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                output = self.fn(*args)
            entry = self.entries[num_tokens] = (graph, output)
        graph, output = entry
        graph.replay()
        return output


def moe_lora_align_block_size(topk_ids, token_lora, experts, max_loras, block):
    """Sorts routes by (adapter, expert) and pads every segment to ``block``; not capturable."""
    key = (token_lora.unsqueeze(1) * experts + topk_ids).flatten()
    counts = torch.bincount(key, minlength=max_loras * experts)
    padded = (counts + block - 1) // block * block
    capacity = key.numel() + max_loras * experts * (block - 1)
    sorted_ids = torch.full((capacity,), key.numel(), dtype=torch.int64, device=key.device)
    starts = padded.cumsum(0) - padded
    order = key.argsort(stable=True)
    rank = torch.arange(key.numel(), device=key.device) - (counts.cumsum(0) - counts)[key[order]]
    sorted_ids[starts[key[order]] + rank] = order
    segment_ids = torch.zeros(capacity, dtype=torch.int64, device=key.device)
    segment_ids[starts[key[order]] + rank] = key[order]
    return sorted_ids, segment_ids


class MoELoraLayer(torch.nn.Module):
    def __init__(self, experts, top_k, hidden, ffn, max_loras, rank, pool):
        super().__init__()
        kw = dict(device="cuda", dtype=torch.bfloat16)
        self.experts, self.top_k, self.max_loras = experts, top_k, max_loras
        self.gate = torch.nn.Linear(hidden, experts, bias=False, **kw)
        self.w1 = torch.nn.Parameter(torch.randn(experts, ffn, hidden, **kw))
        self.w2 = torch.nn.Parameter(torch.randn(experts, hidden, ffn, **kw))
        self.lora_a = torch.zeros(max_loras * experts, rank, hidden, **kw)
        self.lora_b = torch.zeros(max_loras * experts, ffn, rank, **kw)
        self.router_piece = CUDAGraphWrapper(self._route, pool)
        self.expert_piece = CUDAGraphWrapper(self._experts, pool)

    def _route(self, x):
        weights, ids = torch.softmax(self.gate(x).float(), dim=-1).topk(self.top_k, dim=-1)
        return weights, ids

    def _experts(self, x, topk_weights, topk_ids, sorted_ids, segment_ids):
        flat = topk_ids.flatten()
        rows = x.repeat_interleave(self.top_k, dim=0)
        h = torch.bmm(self.w1[flat], rows.unsqueeze(2)).squeeze(2)
        padded_rows = F.pad(rows, (0, 0, 0, 1))[sorted_ids]
        shrunk = torch.bmm(self.lora_a[segment_ids], padded_rows.unsqueeze(2))
        delta = torch.bmm(self.lora_b[segment_ids], shrunk).squeeze(2)
        h = F.pad(h, (0, 0, 0, 1)).index_add(0, sorted_ids, delta)[:-1]
        out = torch.bmm(self.w2[flat], F.silu(h).unsqueeze(2)).squeeze(2)
        out = out.view(-1, self.top_k, x.shape[1]) * topk_weights.unsqueeze(2)
        return out.sum(dim=1).to(x.dtype)

    def forward(self, num_tokens, x, token_lora):
        topk_weights, topk_ids = self.router_piece(num_tokens, x)
        sorted_ids, segment_ids = moe_lora_align_block_size(
            topk_ids, token_lora, self.experts, self.max_loras, block=16
        )
        return self.expert_piece(num_tokens, x, topk_weights, topk_ids, sorted_ids, segment_ids)


class PiecewiseModel:
    def __init__(self, max_tokens, hidden, **kw):
        self.x = torch.zeros(max_tokens, hidden, device="cuda", dtype=torch.bfloat16)
        self.token_lora = torch.zeros(max_tokens, dtype=torch.int64, device="cuda")
        self.layer = MoELoraLayer(hidden=hidden, pool=torch.cuda.graph_pool_handle(), **kw)

    @torch.no_grad()
    def execute(self, hidden_states, token_lora):
        n = hidden_states.shape[0]
        self.x[:n].copy_(hidden_states)
        self.token_lora[:n].copy_(token_lora)
        return self.layer(n, self.x[:n], self.token_lora[:n]).clone()
