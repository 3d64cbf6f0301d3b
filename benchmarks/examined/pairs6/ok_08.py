"""Adam states and master weights live on the host; one parameter is stepped at a time."""
import torch
import torch.nn as nn


class HostAdam:
    def __init__(self, params, lr=1e-4, **kwargs):
        self.params = [p for p in params if p.requires_grad]
        self.host = {}
        self.optims = {}
        for p in self.params:
            h = torch.empty(p.shape, dtype=p.dtype, pin_memory=True)
            h.copy_(p.detach())
            h.grad = torch.empty(p.shape, dtype=p.dtype, pin_memory=True)
            self.host[p] = h
            self.optims[p] = torch.optim.AdamW([h], lr=lr, **kwargs)
        self.down = torch.cuda.Stream()
        self.up = torch.cuda.Stream()

    @torch.no_grad()
    def step(self):
        current = torch.cuda.current_stream()
        self.down.wait_stream(current)
        self.up.wait_stream(current)
        queue = []
        with torch.cuda.stream(self.down):
            for p in reversed(self.params):
                if p.grad is None:
                    continue
                self.host[p].grad.copy_(p.grad, non_blocking=True)
                arrived = torch.cuda.Event()
                arrived.record()
                queue.append((p, arrived))
        for p, arrived in queue:
            arrived.synchronize()
            self.optims[p].step()
            with torch.cuda.stream(self.up):
                p.copy_(self.host[p], non_blocking=True)
        current.wait_stream(self.up)

    def zero_grad(self):
        for p in self.params:
            p.grad = None


def main():
    model = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True), num_layers=12).cuda()
    optimizer = HostAdam(model.parameters(), lr=2e-5, weight_decay=0.01)
    for step in range(100):
        x = torch.randn(4, 512, 1024, device="cuda")
        loss = (model(x) - x).abs().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0:
            print(step, float(loss))


if __name__ == "__main__":
    main()
