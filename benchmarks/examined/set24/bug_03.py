import torch


class ResidualAttention(torch.nn.Module):
    """Decode attention over a quantized cache plus an unquantized residual window."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = torch.nn.Linear(dim, 3 * dim, bias=False)
        self.out = torch.nn.Linear(dim, dim, bias=False)

    def forward(self, x, cache, meta):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        rows = meta[:, 0].long()
        pos = meta[:, 1].long()
        cache[rows, pos, 0] = k
        cache[rows, pos, 1] = v
        keys = cache[rows, :, 0]
        vals = cache[rows, :, 1]
        span = torch.arange(cache.shape[1], device=x.device)
        mask = span[None, :] <= pos[:, None]
        score = torch.einsum("bd,btd->bt", q, keys).masked_fill(~mask, float("-inf"))
        return self.out(torch.einsum("bt,btd->bd", score.softmax(-1), vals))


class DecodeScheduler:
    def __init__(self, layer, max_batch, max_len, dim, device="cuda"):
        self.layer = layer
        self.device = torch.device(device)
        self.cache = torch.zeros((max_batch, max_len, 2, dim), device=device)
        self.x = torch.zeros((max_batch, dim), device=device)
        self.y = torch.zeros((max_batch, dim), device=device)
        self.residual_meta = None
        self.graphs = {}

    def _prepare_meta(self, rows, positions):
        host = torch.tensor(list(zip(rows, positions)), dtype=torch.int32)
        self.residual_meta = host.to(self.device)

    def _forward(self, batch):
        out = self.layer(self.x[:batch], self.cache, self.residual_meta)
        self.y[:batch].copy_(out)

    def _capture(self, batch):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._forward(batch)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._forward(batch)
        return graph

    @torch.no_grad()
    def step(self, embeds, rows, positions):
        batch = len(rows)
        self.x[:batch].copy_(embeds)
        self._prepare_meta(rows, positions)
        graph = self.graphs.get(batch)
        if graph is None:
            graph = self.graphs[batch] = self._capture(batch)
        graph.replay()
        return self.y[:batch].clone()


def decode(sched, embed, head, prompts, steps):
    rows = list(range(len(prompts)))
    positions = [0] * len(prompts)
    tokens = torch.tensor(prompts, device=sched.device)
    history = []
    for _ in range(steps):
        hidden = sched.step(embed(tokens), rows, positions)
        tokens = head(hidden).argmax(-1)
        history.append(tokens)
        positions = [p + 1 for p in positions]
    return torch.stack(history, dim=1).cpu()
