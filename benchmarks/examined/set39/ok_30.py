"""Fit a texture network with a preview thread that asks for crops."""
import queue
import threading

import torch
from torch import nn


class Texture(nn.Module):
    def __init__(self, features=256):
        super().__init__()
        self.register_buffer("freq", torch.randn(2, features // 2) * 6)
        self.net = nn.Sequential(
            nn.Linear(features, features), nn.SiLU(),
            nn.Linear(features, features), nn.SiLU(),
            nn.Linear(features, 3),
        )

    def forward(self, uv):
        phase = uv @ self.freq
        return self.net(torch.cat([phase.sin(), phase.cos()], -1))


class PreviewThread(threading.Thread):
    def __init__(self, model, lock):
        super().__init__(daemon=True)
        self.model, self.lock = model, lock
        self.requests = queue.Queue()
        self.crops = []

    def run(self):
        while True:
            window = self.requests.get()
            if window is None:
                return
            self.crops.append(self.render(*window))

    @torch.no_grad()
    def render(self, u0, v0, size):
        with self.lock:
            axis = torch.arange(size, device="cuda") / 512
            v, u = torch.meshgrid(axis + v0, axis + u0, indexing="ij")
            rgb = self.model(torch.stack([u, v], -1).view(-1, 2))
        return rgb.view(size, size, 3).clamp(0, 1).cpu()


class Fitter:
    def __init__(self, model, lock, lr=3e-3):
        self.model, self.lock = model, lock
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)

    def step(self, batch=1 << 14):
        with self.lock:
            uv = torch.rand(batch, 2, device="cuda")
            want = torch.stack([uv[:, 0], uv[:, 1], uv.prod(-1)], -1)
            loss = (self.model(uv) - want).square().mean()
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
        return loss


def main(steps=200):
    model = Texture().cuda()
    lock = threading.RLock()
    preview = PreviewThread(model, lock)
    preview.start()
    fitter = Fitter(model, lock)
    for k in range(steps):
        loss = fitter.step()
        if k % 40 == 0:
            preview.requests.put((0.1, 0.2, 128))
    print("loss", float(loss))
    preview.requests.put(None)
    preview.join()
    print("crops", len(preview.crops), float(preview.crops[-1].mean()))


if __name__ == "__main__":
    main()
