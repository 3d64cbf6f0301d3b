import weakref

import torch


class Piece:
    def __init__(self, fn, pool):
        self.fn, self.pool = fn, pool
        self.graph = None
        self.inputs = self.output = None

    def __call__(self, *args):
        if self.graph is None:
            self.fn(*args)
            torch.cuda.synchronize()
            self.inputs = args
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, pool=self.pool):
                self.output = self.fn(*args)
            self.graph.replay()
            return self.output
        for static, given in zip(self.inputs, args):
            if static.data_ptr() != given.data_ptr():
                static.copy_(given)
        self.graph.replay()
        return self.output


class Registry:
    def __init__(self):
        self.pieces = weakref.WeakSet()
        self.pool = torch.cuda.graph_pool_handle()

    def piece(self, fn):
        p = Piece(fn, self.pool)
        self.pieces.add(p)
        return p


class PiecewiseModel:
    def __init__(self, dim, depth, registry):
        self.norms = [torch.nn.LayerNorm(dim).cuda() for _ in range(depth)]
        self.qkv = [torch.nn.Linear(dim, 3 * dim).cuda() for _ in range(depth)]
        self.proj = [torch.nn.Linear(dim, dim).cuda() for _ in range(depth)]
        self.pre = [registry.piece(self._pre(i)) for i in range(depth)]
        self.post = [registry.piece(self._post(i)) for i in range(depth)]
        self.input = None

    def _pre(self, i):
        return lambda x: self.qkv[i](self.norms[i](x))

    def _post(self, i):
        return lambda x, a: x + self.proj[i](a)

    def _attend(self, qkv, length):
        q, k, v = qkv.chunk(3, -1)
        out = torch.zeros_like(q)
        out[:length] = torch.softmax(q[:length] @ k[:length].t(), -1) @ v[:length]
        return out

    @torch.no_grad()
    def __call__(self, x, length):
        if self.input is None:
            self.input = torch.empty_like(x)
            self.attn = [torch.empty_like(x) for _ in self.pre]
        self.input.copy_(x)
        h = self.input
        for i, (pre, post) in enumerate(zip(self.pre, self.post)):
            self.attn[i].copy_(self._attend(pre(h), length))
            h = post(h, self.attn[i])
        return h.clone()


def main():
    registry = Registry()
    model = PiecewiseModel(256, 4, registry)
    outs = [model(torch.randn(64, 256, device="cuda"), n) for n in (64, 17, 40)]
    return [o.norm().item() for o in outs], len(registry.pieces)
