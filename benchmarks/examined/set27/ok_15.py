import torch


def maybe_execute_in_parallel(fn0, fn1, event0, event1, aux_stream):
    """Runs ``fn0`` on the current stream and ``fn1`` on ``aux_stream``, then joins."""
    if aux_stream is None:
        return fn0(), fn1()
    event0.record()
    result0 = fn0()
    with torch.cuda.stream(aux_stream):
        event0.wait()
        result1 = fn1()
        event1.record()
    event1.wait()
    return result0, result1


class LoraSlots:
    """Adapter weights of fixed address, filled in place when a request brings a new adapter."""

    def __init__(self, slots, rank, in_features, out_features):
        self.a = torch.zeros(slots, rank, in_features, device="cuda", dtype=torch.bfloat16)
        self.b = torch.zeros(slots, out_features, rank, device="cuda", dtype=torch.bfloat16)

    def load(self, slot, a, b):
        self.a[slot].copy_(a)
        self.b[slot].copy_(b)


class LoraLinear(torch.nn.Module):
    def __init__(self, in_features, out_features, slots, rank, aux_stream):
        super().__init__()
        self.base = torch.nn.Linear(in_features, out_features, bias=False, device="cuda", dtype=torch.bfloat16)
        self.lora = LoraSlots(slots, rank, in_features, out_features)
        self.aux_stream = aux_stream
        self.event0 = torch.cuda.Event()
        self.event1 = torch.cuda.Event()

    def _lora(self, x, slot_ids):
        shrunk = torch.bmm(self.lora.a[slot_ids], x.unsqueeze(2))
        return torch.bmm(self.lora.b[slot_ids], shrunk).squeeze(2)

    def forward(self, x, slot_ids):
        out, delta = maybe_execute_in_parallel(
            lambda: self.base(x),
            lambda: self._lora(x, slot_ids),
            self.event0,
            self.event1,
            self.aux_stream,
        )
        return out.add_(delta)


class Block(torch.nn.Module):
    def __init__(self, hidden, ffn, slots, rank, aux_stream):
        super().__init__()
        self.norm = torch.nn.RMSNorm(hidden, device="cuda", dtype=torch.bfloat16)
        self.up = LoraLinear(hidden, ffn, slots, rank, aux_stream)
        self.down = LoraLinear(ffn, hidden, slots, rank, aux_stream)

    def forward(self, x, slot_ids):
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x), slot_ids)), slot_ids)


class GraphedDecoder:
    """One graph per batch size; inputs and adapter slots are filled before each replay."""

    def __init__(self, hidden, ffn, depth, slots, rank, batch_sizes):
        self.aux_stream = torch.cuda.Stream()
        self.blocks = [Block(hidden, ffn, slots, rank, self.aux_stream) for _ in range(depth)]
        largest = max(batch_sizes)
        self.x = torch.zeros(largest, hidden, device="cuda", dtype=torch.bfloat16)
        self.slot_ids = torch.zeros(largest, dtype=torch.int64, device="cuda")
        self.graphs = {}
        pool = torch.cuda.graph_pool_handle()
        for n in sorted(batch_sizes, reverse=True):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side), torch.no_grad():
                self._forward(n)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.no_grad(), torch.cuda.graph(graph, pool=pool):
                out = self._forward(n)
            self.graphs[n] = (graph, out)

    def _forward(self, n):
        x = self.x[:n]
        for block in self.blocks:
            x = block(x, self.slot_ids[:n])
        return x

    def load_adapter(self, slot, weights):
        for block, (up, down) in zip(self.blocks, weights):
            block.up.lora.load(slot, *up)
            block.down.lora.load(slot, *down)

    def decode(self, x, slot_ids):
        n = min(s for s in self.graphs if s >= x.shape[0])
        self.x[: x.shape[0]].copy_(x)
        self.slot_ids[: x.shape[0]].copy_(slot_ids)
        graph, out = self.graphs[n]
        graph.replay()
        return out[: x.shape[0]].clone()
