"""Trains with a gradient arena whose storage exists only during the backward pass."""
import torch
from torch import nn


class Arena:
    def __init__(self, params, device="cuda"):
        self.params = list(params)
        self.device = torch.device(device)
        self.numel = sum(p.numel() for p in self.params)
        self.flat = torch.empty(self.numel, device=self.device)
        self.nbytes = self.flat.untyped_storage().nbytes()
        self.link = torch.cuda.Stream(self.device)
        self.half = torch.empty(self.numel, dtype=torch.bfloat16, pin_memory=True)
        self.staged = torch.empty(self.numel, dtype=torch.bfloat16, device=self.device)
        self.cast_done = torch.cuda.Event()
        self.host_ready = torch.cuda.Event()
        self.link.wait_stream(torch.cuda.current_stream(self.device))
        self.flat.untyped_storage().resize_(0)

    def open(self):
        self.flat.untyped_storage().resize_(self.nbytes)
        self.flat.zero_()
        offset = 0
        for p in self.params:
            p.grad = self.flat[offset:offset + p.numel()].view_as(p)
            offset += p.numel()

    def ship(self):
        main = torch.cuda.current_stream(self.device)
        for p in self.params:
            p.grad = None
        self.link.wait_stream(main)
        with torch.cuda.stream(self.link):
            self.staged.copy_(self.flat)
            self.cast_done.record(self.link)
            self.half.copy_(self.staged, non_blocking=True)
            self.host_ready.record(self.link)
        main.wait_event(self.cast_done)
        self.flat.untyped_storage().resize_(0)

    def host_grads(self):
        self.host_ready.synchronize()
        offset = 0
        for p in self.params:
            yield self.half[offset:offset + p.numel()].view(p.shape).float()
            offset += p.numel()


class HostStepTrainer:
    def __init__(self, model, lr=1e-3):
        self.model = model.cuda()
        self.arena = Arena(self.model.parameters())
        self.master = [nn.Parameter(p.detach().cpu()) for p in self.arena.params]
        self.opt = torch.optim.AdamW(self.master, lr=lr)

    @torch.no_grad()
    def evaluate(self, batches):
        scratch = [nn.functional.mse_loss(self.model(x), y) for x, y in batches]
        return torch.stack(scratch).mean()

    def step(self, x, y, held_out):
        self.arena.open()
        nn.functional.mse_loss(self.model(x), y).backward()
        self.arena.ship()
        score = self.evaluate(held_out)
        for master, grad in zip(self.master, self.arena.host_grads()):
            master.grad = grad
        self.opt.step()
        with torch.no_grad():
            for p, master in zip(self.arena.params, self.master):
                p.copy_(master)
        return score


def main(width=2048, steps=10):
    net = nn.Sequential(*[nn.Linear(width, width) for _ in range(4)])
    trainer = HostStepTrainer(net)
    held = [tuple(torch.randn(2, 256, width, device="cuda")) for _ in range(4)]
    scores = []
    for _ in range(steps):
        x, y = torch.randn(2, 512, width, device="cuda")
        scores.append(trainer.step(x, y, held))
    return torch.stack(scores).tolist()


if __name__ == "__main__":
    print(main())
