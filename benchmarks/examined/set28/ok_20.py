import torch
from torch import nn


class RingSlot:
    def __init__(self, numel, device):
        self.buffer = torch.empty(numel, dtype=torch.float32, device=device)
        self.uploaded = torch.cuda.Event()
        self.updated = torch.cuda.Event()
        self.downloaded = torch.cuda.Event()


class OffloadedEMA:
    """Exponential moving average of the parameters, held in pinned host memory."""

    def __init__(self, model, decay=0.999, slots=3, chunk=1 << 22):
        self.decay = decay
        self.named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        device = self.named[0][1].device
        self.h2d, self.d2h = torch.cuda.Stream(device), torch.cuda.Stream(device)
        self.slots = [RingSlot(chunk, device) for _ in range(slots)]
        self.chunk = chunk
        self.host = {}
        for name, p in self.named:
            shadow = torch.empty(p.numel(), dtype=torch.float32, pin_memory=True)
            shadow.copy_(p.detach().reshape(-1).float())
            self.host[name] = shadow
        self.h2d.wait_stream(torch.cuda.current_stream())

    def _pieces(self):
        for name, p in self.named:
            flat = p.detach().view(-1)
            for start in range(0, flat.numel(), self.chunk):
                stop = min(start + self.chunk, flat.numel())
                yield self.host[name][start:stop], flat[start:stop]

    @torch.no_grad()
    def update(self):
        compute = torch.cuda.current_stream()
        self.h2d.wait_stream(self.d2h)
        for i, (shadow, live) in enumerate(self._pieces()):
            slot = self.slots[i % len(self.slots)]
            work = slot.buffer[: shadow.numel()]
            with torch.cuda.stream(self.h2d):
                self.h2d.wait_event(slot.downloaded)
                work.copy_(shadow, non_blocking=True)
                slot.uploaded.record()
            compute.wait_event(slot.uploaded)
            work.lerp_(live.float(), 1.0 - self.decay)
            slot.updated.record(compute)
            with torch.cuda.stream(self.d2h):
                self.d2h.wait_event(slot.updated)
                shadow.copy_(work, non_blocking=True)
                slot.downloaded.record()

    def state_dict(self):
        self.d2h.synchronize()
        return {name: self.host[name].clone().view(p.shape) for name, p in self.named}

    def load_state_dict(self, state):
        self.d2h.synchronize()
        self.h2d.synchronize()
        for name, _ in self.named:
            self.host[name].copy_(state[name].reshape(-1))


class Trainer:
    def __init__(self, model: nn.Module, optimizer, ema_every=10, save_every=1000, path="ema.pt"):
        self.model, self.optimizer = model, optimizer
        self.ema = OffloadedEMA(model)
        self.ema_every, self.save_every, self.path = ema_every, save_every, path

    def fit(self, loader, steps):
        for step, (x, y) in zip(range(1, steps + 1), loader):
            loss = nn.functional.cross_entropy(self.model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            if step % self.ema_every == 0:
                self.ema.update()
            if step % self.save_every == 0:
                torch.save({"step": step, "ema": self.ema.state_dict()}, self.path)
        torch.cuda.synchronize()
