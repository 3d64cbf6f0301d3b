"""Token exchange with a communication stream; poisoned outputs for debugging are prepared first."""
import torch
import torch.nn as nn


class Handle:
    def __init__(self, event, keep):
        self.event = event
        self.keep = keep

    def wait(self):
        torch.cuda.current_stream().wait_event(self.event)
        self.keep = None


class Exchange:
    def __init__(self, device, poison):
        self.stream = torch.cuda.Stream(device=device)
        self.poison = poison

    def _outputs(self, *specs):
        outs = [torch.empty(shape, dtype=dtype, device=self.stream.device) for shape, dtype in specs]
        if self.poison:
            for o in outs:
                o.fill_(float("nan") if o.dtype.is_floating_point else -1)
        return outs

    def _begin(self):
        self.stream.wait_event(torch.cuda.current_stream().record_event())
        return torch.cuda.stream(self.stream)

    def dispatch(self, x, expert_of):
        n = expert_of.numel()
        tokens, source = self._outputs(((n, x.shape[1]), x.dtype), ((n,), torch.long))
        with self._begin():
            source.copy_(torch.argsort(expert_of, stable=True))
            torch.index_select(x, 0, source, out=tokens)
            done = self.stream.record_event()
        return tokens, source, Handle(done, (x, expert_of))

    def combine(self, y, source):
        (out,) = self._outputs((y.shape, y.dtype))
        with self._begin():
            out.index_copy_(0, source, y)
            done = self.stream.record_event()
        return out, Handle(done, (y, source))


class Experts(nn.Module):
    def __init__(self, dim, n, exchange):
        super().__init__()
        self.router = nn.Linear(dim, n, bias=False)
        self.weight = nn.Parameter(torch.randn(n, dim, dim) * dim ** -0.5)
        self.skip = nn.Linear(dim, dim)
        self.exchange = exchange

    def forward(self, x):
        expert_of = self.router(x).argmax(-1)
        tokens, source, handle = self.exchange.dispatch(x, expert_of)
        sizes = torch.bincount(expert_of, minlength=self.weight.shape[0]).tolist()
        handle.wait()
        y = torch.cat([t @ w for t, w in zip(tokens.split(sizes), self.weight)])
        out, handle = self.exchange.combine(y, source)
        skip = self.skip(x)
        handle.wait()
        return out + skip


def main():
    torch.manual_seed(0)
    device = torch.device("cuda", 0)
    layer = Experts(1024, 8, Exchange(device, poison=True)).to(device)
    x = torch.randn(16384, 1024, device=device)
    with torch.no_grad():
        for _ in range(8):
            x = torch.nn.functional.layer_norm(layer(x), (1024,))
    print(x.isnan().any().item(), x.std().item())


if __name__ == "__main__":
    main()
