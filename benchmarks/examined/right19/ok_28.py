"""Training loop that logs its metrics a few passes late through a tape of host rows."""
import math

import torch
import torch.nn as nn

FIELDS = ("loss", "grad_norm", "lr_scale")


class Row:
    __slots__ = ("host", "device", "event", "step")

    def __init__(self, width):
        self.host = torch.empty(width, pin_memory=True)
        self.device = None
        self.event = torch.cuda.Event()
        self.step = None


class MetricTape:
    def __init__(self, fields, lag):
        self.fields = fields
        self.rows = [Row(len(fields)) for _ in range(lag)]
        self.stream = torch.cuda.Stream()
        self.log = []

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pending = [r for r in self.rows if r.step is not None]
        for row in sorted(pending, key=lambda r: r.step):
            self._read(row)
        return False

    def _read(self, row):
        row.event.synchronize()
        self.log.append((row.step, dict(zip(self.fields, row.host.tolist()))))
        row.device = None
        row.step = None

    def write(self, step, *values):
        row = self.rows[step % len(self.rows)]
        if row.step is not None:
            self._read(row)
        row.step = step
        row.device = torch.stack([v.detach().float() for v in values])
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            row.host.copy_(row.device, non_blocking=True)
        row.event.record(self.stream)


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inp = nn.Linear(width + 1, 256)
        self.mid = nn.ModuleList(nn.Linear(256, 256) for _ in range(3))
        self.out = nn.Linear(256, width)

    def forward(self, x, t):
        h = torch.relu(self.inp(torch.cat([x, t], dim=1)))
        for layer in self.mid:
            h = h + torch.relu(layer(h))
        return self.out(h)


def main(steps=800):
    torch.manual_seed(1)
    model = Denoiser(32).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scale = torch.ones((), device="cuda")
    basis = torch.randn(8, 32, device="cuda")
    with MetricTape(FIELDS, lag=16) as tape:
        for step in range(steps):
            clean = torch.randn(512, 8, device="cuda") @ basis
            t = torch.rand(512, 1, device="cuda")
            noise = torch.randn_like(clean)
            mixed = clean * torch.cos(t * math.pi / 2) + noise * torch.sin(t * math.pi / 2)
            loss = (model(mixed, t) - noise).square().mean()
            opt.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scale.mul_(0.999)
            for p in model.parameters():
                p.grad.mul_(scale)
            opt.step()
            tape.write(step, loss, norm, scale)
    assert [s for s, _ in tape.log] == list(range(steps))
    for step, rec in tape.log[::100]:
        print(step, {k: round(v, 4) for k, v in rec.items()})


if __name__ == "__main__":
    main()
