"""Gradient statistics gathered by tensor hooks, drained once per step."""
import torch
import torch.nn as nn


class GradScribe:
    """Writes a small summary of each parameter gradient to a pinned table."""

    FIELDS = 3

    def __init__(self, model):
        self.names = [n for n, p in model.named_parameters() if p.requires_grad]
        self.rows = {n: i for i, n in enumerate(self.names)}
        self.table = torch.zeros(len(self.names), self.FIELDS, device="cuda")
        self.host = torch.zeros(len(self.names), self.FIELDS, pin_memory=True)
        self.export = torch.cuda.Stream()
        self.ready = torch.cuda.Event()
        self.outstanding = False
        self.handles = [
            p.register_post_accumulate_grad_hook(self._hook(n))
            for n, p in model.named_parameters() if p.requires_grad
        ]

    def _hook(self, name):
        row = self.rows[name]

        @torch.no_grad()
        def fn(p):
            g = p.grad
            self.table[row, 0] = g.norm()
            self.table[row, 1] = g.abs().amax()
            self.table[row, 2] = g.mean()
        return fn

    def publish(self):
        cur = torch.cuda.current_stream()
        self.export.wait_stream(cur)
        with torch.cuda.stream(self.export):
            self.host.copy_(self.table, non_blocking=True)
            self.ready.record()
        cur.wait_event(self.ready)
        self.outstanding = True

    def read(self):
        if self.outstanding:
            self.ready.synchronize()
            self.outstanding = False
        return dict(zip(self.names, self.host.tolist()))

    def close(self):
        for h in self.handles:
            h.remove()


class Guard:
    def __init__(self, limit):
        self.limit = limit
        self.tripped = []

    def inspect(self, step, stats):
        worst = max(stats, key=lambda n: stats[n][1])
        if stats[worst][1] > self.limit:
            self.tripped.append((step, worst, stats[worst][1]))


def build():
    return nn.Sequential(
        nn.Linear(40, 512), nn.SiLU(),
        nn.Linear(512, 512), nn.SiLU(),
        nn.Linear(512, 1),
    ).cuda()


def main():
    torch.manual_seed(0)
    net = build()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    scribe, guard = GradScribe(net), Guard(limit=0.5)
    w = torch.randn(40, 1, device="cuda")
    for step in range(200):
        x = torch.randn(256, 40, device="cuda")
        loss = (net(x) - torch.sin(3.0 * x @ w)).square().mean()
        opt.zero_grad()
        loss.backward()
        scribe.publish()
        opt.step()
        guard.inspect(step, scribe.read())
    scribe.close()
    print("tripped", guard.tripped[:5])
    for name, (norm, peak, mean) in scribe.read().items():
        print(f"{name:12s} {norm:.4f} {peak:.4f} {mean:+.5f}")


if __name__ == "__main__":
    main()
