import collections

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class HostMirror:
    def __init__(self, shape, depth=2):
        self.stream = torch.cuda.Stream()
        self.host = [torch.empty(shape, pin_memory=True) for _ in range(depth)]
        self.marks = [torch.cuda.Event() for _ in range(depth)]
        self.cursor = 0

    def push(self, tensor):
        slot = self.cursor % len(self.host)
        self.cursor += 1
        self.marks[slot].synchronize()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.host[slot].copy_(tensor, non_blocking=True)
            self.marks[slot].record()
        return slot

    def release(self):
        torch.cuda.current_stream().wait_stream(self.stream)

    def fence(self, slot):
        self.marks[slot].synchronize()

    def view(self, slot):
        return self.host[slot].numpy()


class GradientWatch:
    def __init__(self, model, rate=0.1):
        self.params = list(model.named_parameters())
        self.norms = torch.zeros(len(self.params), device="cuda")
        self.rate = rate
        self.mirror = HostMirror((len(self.params),))
        self.pending = collections.deque()
        self.alarms = collections.Counter()

    def observe(self):
        fresh = torch.stack([p.grad.norm() for _, p in self.params])
        self.mirror.release()
        self.norms.lerp_(fresh, self.rate)
        self.pending.append(self.mirror.push(self.norms))

    def report(self, keep):
        while len(self.pending) > keep:
            slot = self.pending.popleft()
            self.mirror.fence(slot)
            values = self.mirror.view(slot)
            limit = 4 * np.median(values) + 1e-6
            for (name, _), v in zip(self.params, values):
                if v > limit:
                    self.alarms[name] += 1


class LogitWatch:
    def __init__(self, batch, classes):
        self.mirror = HostMirror((batch, classes), depth=3)
        self.slot = None
        self.hist = np.zeros(40, dtype=np.int64)

    def observe(self, logits):
        snap = logits.detach().float()
        snap.record_stream(self.mirror.stream)
        self.slot = self.mirror.push(snap)

    def report(self):
        if self.slot is None:
            return
        self.mirror.fence(self.slot)
        self.hist += np.histogram(self.mirror.view(self.slot), bins=40, range=(-10, 10))[0]
        self.slot = None


def main(steps=300, batch=256, classes=20):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, classes)).cuda()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    grads = GradientWatch(model)
    logits_watch = LogitWatch(batch, classes)
    for step in range(steps):
        x = torch.randn(batch, 128, device="cuda")
        target = x[:, :classes].argmax(1)
        logits = model(x)
        if step % 10 == 0:
            logits_watch.observe(logits)
        loss = F.cross_entropy(logits, target)
        opt.zero_grad()
        loss.backward()
        grads.observe()
        opt.step()
        grads.report(keep=1)
        if step % 10 == 5:
            logits_watch.report()
    grads.report(keep=0)
    print(dict(grads.alarms), logits_watch.hist.tolist())


if __name__ == "__main__":
    main()
