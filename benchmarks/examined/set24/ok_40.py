"""Checkpoints that are written by a thread while training goes on."""
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


class PinnedSet:
    def __init__(self, params):
        self.tensors = [torch.empty(p.shape, dtype=p.dtype, pin_memory=True) for p in params]
        self.copied = torch.cuda.Event()
        self.future = None


class AsyncCheckpointer:
    def __init__(self, model, n_sets=2):
        self.names, params = zip(*model.named_parameters())
        self.params = list(params)
        self.stream = torch.cuda.Stream()
        self.sets = [PinnedSet(self.params) for _ in range(n_sets)]
        self.pool = ThreadPoolExecutor(max_workers=1)
        self.turn = 0
        self.last = None

    def _write(self, target, path):
        target.copied.synchronize()
        torch.save(dict(zip(self.names, target.tensors)), path)

    def save(self, path):
        target = self.sets[self.turn % len(self.sets)]
        self.turn += 1
        if target.future is not None:
            target.future.result()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for dst, src in zip(target.tensors, self.params):
                dst.copy_(src.detach(), non_blocking=True)
            target.copied.record(self.stream)
        target.future = self.pool.submit(self._write, target, path)
        self.last = target

    def before_update(self):
        if self.last is not None:
            torch.cuda.current_stream().wait_event(self.last.copied)
            self.last = None

    def close(self):
        for s in self.sets:
            if s.future is not None:
                s.future.result()
        self.pool.shutdown()


def main():
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    ckpt = AsyncCheckpointer(model)
    for step in range(200):
        x = torch.randn(64, 2048, device="cuda")
        opt.zero_grad(set_to_none=True)
        loss = (model(x) - x).square().mean()
        loss.backward()
        ckpt.before_update()
        opt.step()
        if step % 10 == 9:
            ckpt.save(f"step_{step}.pt")
    ckpt.close()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
