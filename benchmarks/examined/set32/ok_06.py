"""Two-tower encoder: each tower has a stream in the forward pass, autograd follows them back."""
import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.nn.functional.gelu(layer(x))
        return torch.nn.functional.normalize(x, dim=-1)


class TwoTower(nn.Module):
    """`stem` runs on the caller's stream, the towers next to each other."""

    def __init__(self, dim=1024, depth=8):
        super().__init__()
        self.stem = nn.Linear(dim, dim)
        self.left = Tower(dim, depth)
        self.right = Tower(dim, depth)
        self.scale = nn.Parameter(torch.tensor(10.0))
        self.streams = None

    def _pick_streams(self):
        if self.streams is None:
            self.streams = (torch.cuda.Stream(), torch.cuda.Stream())
        return self.streams

    def forward(self, a, b):
        main = torch.cuda.current_stream()
        ha, hb = torch.relu(self.stem(a)), torch.relu(self.stem(b))
        outs = []
        for stream, tower, h in zip(self._pick_streams(), (self.left, self.right), (ha, hb)):
            stream.wait_stream(main)
            h.record_stream(stream)
            with torch.cuda.stream(stream):
                outs.append(tower(h))
        for stream, out in zip(self.streams, outs):
            main.wait_stream(stream)
            out.record_stream(main)
        return self.scale * outs[0] @ outs[1].T


def clip_loss(logits):
    target = torch.arange(logits.shape[0], device=logits.device)
    ce = torch.nn.functional.cross_entropy
    return 0.5 * (ce(logits, target) + ce(logits.T, target))


class Trainer:
    def __init__(self, model, lr=1e-4, max_norm=1.0):
        self.model = model
        self.max_norm = max_norm
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr)

    def step(self, a, b):
        self.opt.zero_grad(set_to_none=True)
        loss = clip_loss(self.model(a, b))
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.opt.step()
        return loss.detach(), norm


def main(steps=100, batch=1024, dim=1024):
    model = TwoTower(dim).cuda()
    trainer = Trainer(model)
    history = []
    for _ in range(steps):
        a = torch.randn(batch, dim, device="cuda")
        b = a + 0.1 * torch.randn_like(a)
        loss, norm = trainer.step(a, b)
        history.append(torch.stack([loss, norm]))
    print(torch.stack(history)[-10:].mean(0).tolist())


if __name__ == "__main__":
    main()
