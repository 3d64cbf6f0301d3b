"""Actor whose weights are snapshotted in the background and can be dropped right after."""
import threading

import torch
import torch.nn as nn


class Snapshotter:
    def __init__(self, home, device):
        self.home = home
        self.stream = torch.cuda.Stream(device)
        self.staged = {}
        self.taken = None
        self.thread = None

    def take(self, module, path):
        self.join()
        self.stream.wait_stream(self.home)
        with torch.cuda.stream(self.stream):
            for name, p in module.named_parameters():
                host = self.staged.get(name)
                if host is None:
                    host = self.staged[name] = torch.empty(p.shape, dtype=p.dtype, pin_memory=True)
                host.copy_(p.detach(), non_blocking=True)
            self.taken = self.stream.record_event()
        self.thread = threading.Thread(target=self._write, args=(self.taken, path))
        self.thread.start()

    def fence(self):
        if self.taken is not None:
            self.home.wait_event(self.taken)

    def _write(self, taken, path):
        taken.synchronize()
        torch.save(self.staged, path)

    def join(self):
        if self.thread is not None:
            self.thread.join()
            self.thread = None


class ColocatedActor:
    def __init__(self, build, device="cuda:0"):
        self.device = torch.device(device)
        self.home = torch.cuda.current_stream(self.device)
        self.module = build().to(self.device)
        self.nbytes = {n: p.untyped_storage().size() for n, p in self.module.named_parameters()}
        self.snapshots = Snapshotter(self.home, self.device)

    @torch.no_grad()
    def update(self, lr):
        self.snapshots.fence()
        with torch.cuda.stream(self.home):
            for p in self.module.parameters():
                p.add_(torch.randn_like(p), alpha=lr)

    def drop(self):
        self.snapshots.fence()
        for p in self.module.parameters():
            p.untyped_storage().resize_(0)

    @torch.no_grad()
    def restore(self):
        self.snapshots.join()
        with torch.cuda.stream(self.home):
            for name, p in self.module.named_parameters():
                p.untyped_storage().resize_(self.nbytes[name])
                p.copy_(self.snapshots.staged[name], non_blocking=True)


def cycle(actor, steps):
    for step in range(steps):
        actor.update(1e-3)
        actor.snapshots.take(actor.module, f"/tmp/actor_{step % 2}.pt")
        actor.drop()
        with torch.cuda.stream(actor.home):
            cache = [torch.zeros(2048, 2048, device=actor.device) for _ in range(16)]
            score = sum(c.sum() for c in cache)
            del cache
        actor.restore()
        print(step, score.item())
    actor.snapshots.join()


if __name__ == "__main__":
    cycle(ColocatedActor(lambda: nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(16)])), 4)
