"""Augmented views are made by threads, each with a stream of its own."""
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F


class ViewMaker:
    def __init__(self, device="cuda", workers=4, size=224):
        self.device = torch.device(device)
        self.size = size
        self.local = threading.local()
        self.mean = torch.tensor([0.485, 0.456, 0.406], device=self.device).view(1, 3, 1, 1)
        self.std = torch.tensor([0.229, 0.224, 0.225], device=self.device).view(1, 3, 1, 1)
        self.ready = torch.cuda.current_stream(self.device).record_event()
        self.pool = ThreadPoolExecutor(workers, initializer=self._bind)

    def _bind(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(self.device)
        stream.wait_event(self.ready)
        torch.cuda.set_stream(stream)
        self.local.generator = torch.Generator().manual_seed(threading.get_ident() % (1 << 31))

    def _theta(self, n):
        g = self.local.generator
        angle = (torch.rand(n, generator=g) - 0.5) * 0.6
        scale = 0.5 + 0.5 * torch.rand(n, generator=g)
        theta = torch.zeros(n, 2, 3)
        theta[:, 0, 0] = angle.cos() * scale
        theta[:, 0, 1] = -angle.sin() * scale
        theta[:, 1, 0] = angle.sin() * scale
        theta[:, 1, 1] = angle.cos() * scale
        return theta.to(self.device)

    @torch.no_grad()
    def _make(self, images):
        x = images.to(self.device).float().div_(255)
        grid = F.affine_grid(self._theta(x.shape[0]), (x.shape[0], 3, self.size, self.size), align_corners=False)
        x = F.grid_sample(x, grid, align_corners=False)
        x = (x - self.mean) / self.std
        return x, torch.cuda.current_stream(self.device).record_event()

    def submit(self, images):
        return self.pool.submit(self._make, images)

    def receive(self, future):
        x, done = future.result()
        stream = torch.cuda.current_stream(self.device)
        stream.wait_event(done)
        x.record_stream(stream)
        return x


def contrastive_epoch(model, optimizer, loader, device="cuda", ahead=2):
    maker = ViewMaker(device)
    flight, losses = [], []

    def consume():
        a, b = (maker.receive(f) for f in flight.pop(0))
        za, zb = F.normalize(model(a), dim=-1), F.normalize(model(b), dim=-1)
        logits = za @ zb.t() / 0.1
        loss = F.cross_entropy(logits, torch.arange(len(logits), device=logits.device))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())

    for images in loader:
        flight.append((maker.submit(images), maker.submit(images)))
        if len(flight) > ahead:
            consume()
    while flight:
        consume()
    maker.pool.shutdown()
    return torch.stack(losses).mean().item()
