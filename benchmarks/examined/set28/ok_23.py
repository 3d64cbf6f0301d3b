from collections import OrderedDict

import torch


class WorkspaceCache:
    """Bounded LRU of workspaces; those taken while a graph is captured belong to that graph."""

    def __init__(self, capacity=8):
        self.capacity = capacity
        self.entries = OrderedDict()
        self.capture_owner = None

    def get(self, rows, splits, hidden, device):
        key = (rows, splits, hidden, device)
        if self.capture_owner is not None:
            owned = self.capture_owner.workspaces
            if key not in owned:
                owned[key] = torch.empty(splits, rows, hidden, dtype=torch.float32, device=device)
            return owned[key]
        buf = self.entries.get(key)
        if buf is None:
            buf = torch.empty(splits, rows, hidden, dtype=torch.float32, device=device)
            self.entries[key] = buf
            while len(self.entries) > self.capacity:
                self.entries.popitem(last=False)
        else:
            self.entries.move_to_end(key)
        return buf


workspaces = WorkspaceCache()


def hyper_connection(x, weight, splits):
    """Mixes the residual branches of ``x`` [rows, branches, hidden] with a split reduction."""
    rows, branches, hidden = x.shape
    ws = workspaces.get(rows, splits, hidden, x.device)
    for i, (xs, wsplit) in enumerate(zip(x.chunk(splits, dim=1), weight.chunk(splits, dim=0))):
        ws[i].copy_(torch.einsum("rbh,b->rh", xs.float(), wsplit.float()))
    return ws.sum(dim=0).to(x.dtype)


class CapturedStep:
    def __init__(self, fn, rows, branches, hidden, pool):
        self.workspaces = {}
        self.static_in = torch.zeros(rows, branches, hidden, dtype=torch.bfloat16, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        workspaces.capture_owner = self
        try:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                fn(self.static_in)
            torch.cuda.current_stream().wait_stream(side)
            torch.cuda.synchronize()
            with torch.cuda.graph(self.graph, pool=pool):
                self.static_out = fn(self.static_in)
        finally:
            workspaces.capture_owner = None

    def __call__(self, x):
        self.static_in.copy_(x)
        self.graph.replay()
        return self.static_out.clone()


class Decoder:
    def __init__(self, depth=4, branches=8, hidden=4096, sizes=(1, 2, 4, 8)):
        self.branches, self.hidden = branches, hidden
        self.weights = [torch.randn(branches, device="cuda").softmax(0) for _ in range(depth)]
        self.steps = {}
        pool = torch.cuda.graph_pool_handle()
        for rows in sorted(sizes, reverse=True):
            self.steps[rows] = CapturedStep(self._forward, rows, branches, hidden, pool)

    def _forward(self, x):
        for w in self.weights:
            x = x + hyper_connection(x, w, splits=4)[:, None]
        return x.mean(dim=1)

    @torch.inference_mode()
    def __call__(self, x):
        step = self.steps.get(x.shape[0])
        return step(x) if step is not None else self._forward(x)


def serve(decoder, batches):
    outputs = []
    for rows in batches:
        x = torch.randn(rows, decoder.branches, decoder.hidden, device="cuda", dtype=torch.bfloat16)
        outputs.append(decoder(x))
    return [o.float().norm().item() for o in outputs]


if __name__ == "__main__":
    with torch.inference_mode():
        dec = Decoder()
    print(serve(dec, [1, 3, 5, 8, 17, 2, 33, 64, 7, 9, 11, 13, 4, 8, 1]))
