import os
import tempfile
import threading

import torch
from torch import nn


class SnapshotWriter:
    """Copies a module's state to pinned memory and writes it from another thread."""

    def __init__(self, device="cuda"):
        self.device = torch.device(device, torch.cuda.current_device())
        self.stream = torch.cuda.Stream(self.device)
        self.buffers = {}
        self.thread = None
        self.error = None

    def wait(self):
        if self.thread is not None:
            self.thread.join()
            self.thread = None
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    def _buffer(self, name, value):
        held = self.buffers.get(name)
        if held is None or held.shape != value.shape or held.dtype != value.dtype:
            held = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
            self.buffers[name] = held
        return held

    def save(self, module, path):
        self.wait()
        state = {k: v.detach() for k, v in module.state_dict().items()}
        images = {name: self._buffer(name, value) for name, value in state.items()}
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        try:
            with torch.cuda.stream(self.stream):
                for name, value in state.items():
                    images[name].copy_(value, non_blocking=True)
                done = self.stream.record_event()
        finally:
            current.wait_stream(self.stream)
        self.thread = threading.Thread(target=self._write, args=(images, done, path))
        self.thread.start()

    def _write(self, images, done, path):
        try:
            done.synchronize()
            partial = path + ".partial"
            torch.save(images, partial)
            os.replace(partial, path)
        except Exception as exc:
            self.error = exc

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.wait()


def train(net, writer, folder, steps):
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for step in range(steps):
        x = torch.randn(64, 128, device="cuda")
        loss = nn.functional.mse_loss(net(x), x.cumsum(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            writer.save(net, os.path.join(folder, f"step{step}.pt"))
    return loss.item()


def main():
    net = nn.Sequential(nn.Linear(128, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 128)).cuda()
    with tempfile.TemporaryDirectory() as folder:
        with SnapshotWriter() as writer:
            print(train(net, writer, folder, 35))
            writer.save(net, os.path.join(folder, "last.pt"))
            writer.wait()
            last = torch.load(os.path.join(folder, "last.pt"))
            same = all(torch.equal(last[k], v.cpu()) for k, v in net.state_dict().items())
            print(sorted(os.listdir(folder)), same)


if __name__ == "__main__":
    main()
