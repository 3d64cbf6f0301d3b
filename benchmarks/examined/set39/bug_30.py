"""Train a small radiance field while a viewer thread renders previews."""
import threading
import time

import torch
from torch import nn


class Field(nn.Module):
    def __init__(self, width=512, depth=6):
        super().__init__()
        dims = [3] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims, dims[1:]))
        self.rgb = nn.Linear(width, 3)

    def forward(self, x):
        for layer in self.hidden:
            x = torch.relu(layer(x))
        return torch.sigmoid(self.rgb(x))


class Viewer(threading.Thread):
    def __init__(self, field, lock, side=256):
        super().__init__(daemon=True)
        self.field = field
        self.lock = lock
        self.side = side
        self.closing = threading.Event()
        self.frames = 0
        self.image = None

    def rays(self):
        line = torch.linspace(-1, 1, self.side, device="cuda")
        y, x = torch.meshgrid(line, line, indexing="ij")
        return torch.stack([x, y, torch.ones_like(x)], -1).view(-1, 3)

    def run(self):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream), torch.no_grad():
            rays = self.rays()
            while not self.closing.is_set():
                with self.lock:
                    pixels = self.field(rays)
                self.image = pixels.view(self.side, self.side, 3).cpu()
                self.frames += 1
                time.sleep(0.01)


class Trainer:
    def __init__(self, field, lock, lr=1e-2):
        self.field = field
        self.lock = lock
        self.lr = lr

    def step(self, points, target):
        with self.lock:
            loss = (self.field(points) - target).square().mean()
            loss.backward()
            with torch.no_grad():
                for p in self.field.parameters():
                    p.add_(p.grad, alpha=-self.lr)
                    p.grad = None
        return loss


def main(steps=300, batch=1 << 15):
    field = Field().cuda()
    torch.cuda.synchronize()
    lock = threading.Lock()
    viewer = Viewer(field, lock)
    viewer.start()
    trainer = Trainer(field, lock)
    for k in range(steps):
        points = torch.rand(batch, 3, device="cuda") * 2 - 1
        loss = trainer.step(points, points.abs())
        if k % 50 == 0:
            print(k, float(loss))
    viewer.closing.set()
    viewer.join()
    torch.cuda.synchronize()
    print("preview frames", viewer.frames)


if __name__ == "__main__":
    main()
