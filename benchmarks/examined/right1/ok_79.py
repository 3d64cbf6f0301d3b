"""Checkpoints copied to pinned memory and written by a thread."""
import queue
import threading
from dataclasses import dataclass

import torch


@dataclass
class Snapshot:
    tensors: dict
    done: torch.cuda.Event
    step: int = -1


class AsyncCheckpointer:
    def __init__(self, model, optimizer, pattern, copies=2):
        self.model = model
        self.pattern = pattern
        self.stream = torch.cuda.Stream()
        self._last = None
        self._free = queue.Queue()
        self._jobs = queue.Queue()
        for _ in range(copies):
            tensors = {
                k: torch.empty(v.shape, dtype=v.dtype, pin_memory=True)
                for k, v in model.state_dict().items()
            }
            self._free.put(Snapshot(tensors, torch.cuda.Event()))
        self._hook = optimizer.register_step_pre_hook(self._before_step)
        self._thread = threading.Thread(target=self._write_loop)
        self._thread.start()

    def _before_step(self, optimizer, args, kwargs):
        if self._last is not None:
            torch.cuda.current_stream().wait_event(self._last)
            self._last = None

    def save(self, step):
        snap = self._free.get()
        snap.step = step
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for k, v in self.model.state_dict().items():
                snap.tensors[k].copy_(v, non_blocking=True)
            snap.done.record()
        self._last = snap.done
        self._jobs.put(snap)

    def _write_loop(self):
        for snap in iter(self._jobs.get, None):
            try:
                snap.done.synchronize()
                torch.save(snap.tensors, self.pattern.format(step=snap.step))
            finally:
                self._free.put(snap)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._jobs.put(None)
        self._thread.join()
        self._hook.remove()
        torch.cuda.current_stream().wait_stream(self.stream)


def main(steps=100, every=10):
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512)).cuda()
    opt = torch.optim.Adam(net.parameters())
    with AsyncCheckpointer(net, opt, "/tmp/net-{step}.pt") as ckpt:
        for step in range(steps):
            x = torch.randn(256, 512, device="cuda")
            loss = (net(x) - x.flip(-1)).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % every == 0:
                ckpt.save(step)
    return loss.item()


if __name__ == "__main__":
    print(main())
