from collections import OrderedDict

import torch


class GraphEntry:
    def __init__(self, fn, args):
        self.args = [a.clone() for a in args]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                fn(*self.args)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = fn(*self.args)

    def __call__(self, args):
        for dst, src in zip(self.args, args):
            dst.copy_(src)
        self.graph.replay()
        return self.out.clone()


class BoundedGraphCache:
    """Least-recently-used graphs keyed by the shapes of the inputs."""

    def __init__(self, fn, capacity=4):
        self.fn = fn
        self.capacity = capacity
        self.entries = OrderedDict()

    @staticmethod
    def _key(args):
        return tuple((tuple(a.shape), a.dtype) for a in args)

    def __call__(self, *args):
        key = self._key(args)
        entry = self.entries.get(key)
        if entry is None:
            if len(self.entries) >= self.capacity:
                torch.cuda.current_stream().synchronize()
                self.entries.popitem(last=False)
            entry = self.entries[key] = GraphEntry(self.fn, args)
        self.entries.move_to_end(key)
        return entry(args)


class DiffusionExpert(torch.nn.Module):
    def __init__(self, dim, cond):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(dim + cond + 1, 1024), torch.nn.SiLU(), torch.nn.Linear(1024, dim))

    def forward(self, x, cond, t):
        return self.net(torch.cat([x, cond, t.expand(x.shape[0], 1)], dim=-1))


@torch.inference_mode()
def plan(requests, steps=10, dim=64, cond_dim=256):
    expert = DiffusionExpert(dim, cond_dim).cuda().eval()
    cache = BoundedGraphCache(expert)
    out = []
    for cond in requests:
        cond = cond.cuda()
        x = torch.randn(cond.shape[0], dim, device="cuda")
        previous = None
        for i in range(steps):
            t = torch.full((1, 1), i / steps, device="cuda")
            velocity = cache(x, cond, t)
            if previous is not None:
                velocity = 1.5 * velocity - 0.5 * previous
            x = x + velocity / steps
            previous = velocity
        out.append(x.cpu())
    return out
