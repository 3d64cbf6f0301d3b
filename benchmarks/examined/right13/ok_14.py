"""Asynchronous checkpoints: clone on device, drain on a copy stream, write in a thread."""
import os
import threading

import torch


class Snapshot:
    def __init__(self, step, clones, host, drained):
        self.step = step
        self.clones = clones
        self.host = host
        self.drained = drained


class AsyncCheckpointer:
    def __init__(self, directory, device="cuda"):
        self.directory = directory
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.buffers = {}
        self.writer = None
        self.failure = None
        os.makedirs(directory, exist_ok=True)

    def _host_like(self, name, t):
        buf = self.buffers.get(name)
        if buf is None or buf.shape != t.shape or buf.dtype != t.dtype:
            buf = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
            self.buffers[name] = buf
        return buf

    def _write(self, snap):
        try:
            snap.drained.synchronize()
            snap.clones.clear()
            path = os.path.join(self.directory, f"step_{snap.step:08d}.pt")
            torch.save({"step": snap.step, "state": snap.host}, path + ".tmp")
            os.replace(path + ".tmp", path)
        except BaseException as exc:
            self.failure = exc

    def wait(self):
        if self.writer is not None:
            self.writer.join()
            self.writer = None
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    @torch.no_grad()
    def save(self, step, state):
        self.wait()
        clones = {k: v.detach().clone() for k, v in state.items() if v.is_cuda}
        host = {k: v.clone() for k, v in state.items() if not v.is_cuda}
        for name, clone in clones.items():
            host[name] = self._host_like(name, clone)
        drained = torch.cuda.Event()
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            for name, clone in clones.items():
                host[name].copy_(clone, non_blocking=True)
            drained.record()
        snap = Snapshot(step, clones, host, drained)
        self.writer = threading.Thread(target=self._write, args=(snap,))
        self.writer.start()


def train(model, opt, batches, directory, every=200):
    saver = AsyncCheckpointer(directory)
    for step, (x, y) in enumerate(batches, 1):
        opt.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        opt.step()
        if step % every == 0:
            saver.save(step, model.state_dict())
    saver.wait()
