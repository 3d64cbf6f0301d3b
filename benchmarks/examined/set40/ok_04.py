"""Gradient bucket averaging on a reduction stream; flat buffers stay referenced until the join."""
import torch
import torch.nn as nn


class OverlapReducer:
    def __init__(self, module, bucket_bytes, divisor):
        self.params = [p for p in module.parameters() if p.requires_grad]
        self.limit = bucket_bytes
        self.divisor = divisor
        self.totals = {p: torch.zeros_like(p) for p in self.params}
        self.stream = torch.cuda.Stream()
        self.in_flight = []
        self.batch, self.batch_bytes = [], 0
        for p in self.params:
            p.register_post_accumulate_grad_hook(self._grad_ready)

    def _grad_ready(self, p):
        self.batch.append((p, p.grad))
        self.batch_bytes += p.grad.numel() * p.grad.element_size()
        p.grad = None
        if self.batch_bytes >= self.limit:
            self._launch()

    def _launch(self):
        batch, self.batch, self.batch_bytes = self.batch, [], 0
        if not batch:
            return
        flat = torch._utils._flatten_dense_tensors([g for _, g in batch])
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            flat.mul_(1.0 / self.divisor)
            views = torch._utils._unflatten_dense_tensors(flat, [g for _, g in batch])
            for (p, _), view in zip(batch, views):
                self.totals[p].add_(view)
        self.in_flight.append((flat, batch))

    def join(self):
        self._launch()
        torch.cuda.current_stream().wait_stream(self.stream)
        self.in_flight.clear()

    @torch.no_grad()
    def apply(self, lr):
        for p in self.params:
            p.add_(self.totals[p], alpha=-lr)
            self.totals[p].zero_()


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = nn.Linear(width, width)
        self.b = nn.Linear(width, width)

    def forward(self, x):
        return x + self.b(torch.tanh(self.a(x)))


def micro_batches(n, rows, width):
    for _ in range(n):
        x = torch.randn(rows, width, device="cuda")
        yield x, x.flip(1)


def train(steps=8, accumulate=4, width=2048, depth=8):
    torch.manual_seed(0)
    net = nn.Sequential(*(Residual(width) for _ in range(depth))).cuda()
    reducer = OverlapReducer(net, bucket_bytes=32 << 20, divisor=accumulate)
    history = torch.zeros(steps, device="cuda")
    for s in range(steps):
        for x, y in micro_batches(accumulate, 2048, width):
            loss = (net(x) - y).abs().mean()
            loss.backward()
            history[s] += loss.detach() / accumulate
            reducer.join()
        reducer.apply(lr=1e-2)
    return history.tolist()


if __name__ == "__main__":
    print(train())
