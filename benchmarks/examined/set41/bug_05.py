"""Train with decoder layers parked in host memory between uses."""
import torch
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.up = nn.Linear(dim, 4 * dim, bias=False)
        self.down = nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class LayerParking:
    def __init__(self, layers, device):
        self.layers = layers
        self.device = device
        self.lane = torch.cuda.Stream(device)
        self.resident = set()
        self.host = []
        for layer in layers:
            self.host.append({n: p.data.cpu().pin_memory() for n, p in layer.named_parameters()})
            for p in layer.parameters():
                p.data = torch.empty(0, device=device)
        for i, layer in enumerate(layers):
            layer.register_forward_pre_hook(self._make_pre(i))

    def _make_pre(self, i):
        def hook(module, args):
            self.bring(i)
            self.join(i)
            if i + 1 < len(self.layers):
                self.bring(i + 1)
        return hook

    def bring(self, i):
        if i in self.resident:
            return
        self.lane.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.lane):
            for name, p in self.layers[i].named_parameters():
                p.data = self.host[i][name].to(self.device, non_blocking=True)
        self.resident.add(i)

    def join(self, i):
        here = torch.cuda.current_stream(self.device)
        here.wait_stream(self.lane)
        for p in self.layers[i].parameters():
            p.data.record_stream(here)

    def park(self, i):
        for name, p in self.layers[i].named_parameters():
            self.host[i][name].copy_(p.data, non_blocking=True)
            p.data = torch.empty(0, device=self.device)
        self.resident.discard(i)

    def pre_step(self):
        for i in sorted(self.resident):
            self.park(i)
        self.bring(0)

    def post_step(self):
        for i in sorted(self.resident):
            self.park(i)
        self.bring(0)


class Trainer:
    def __init__(self, depth=6, dim=512, device="cuda"):
        self.device = torch.device(device)
        self.layers = nn.ModuleList(Block(dim) for _ in range(depth))
        self.parking = LayerParking(self.layers, self.device)
        self.dim = dim

    def step(self, batch):
        self.parking.pre_step()
        h = batch.to(self.device)
        for layer in self.layers:
            h = layer(h)
        loss = h.float().pow(2).mean()
        loss.backward()
        with torch.no_grad():
            for layer in self.layers:
                for p in layer.parameters():
                    p.data.add_(p.grad, alpha=-1e-3)
                    p.grad = None
        self.parking.post_step()
        return loss.detach()


def main():
    trainer = Trainer()
    losses = [trainer.step(torch.randn(16, trainer.dim)) for _ in range(10)]
    print(torch.stack(losses).tolist())


if __name__ == "__main__":
    main()
