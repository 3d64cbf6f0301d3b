import os
import threading

import torch


class AsyncCheckpointer:
    def __init__(self, directory):
        self.directory = directory
        self.stream = torch.cuda.Stream()
        self.staged = torch.cuda.Event()
        self.buffers = {}
        self.thread = None
        os.makedirs(directory, exist_ok=True)

    def _buffer(self, name, tensor):
        buffer = self.buffers.get(name)
        if buffer is None:
            buffer = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            self.buffers[name] = buffer
        return buffer

    def _write(self, path):
        self.staged.synchronize()
        temporary = path + ".tmp"
        torch.save(self.buffers, temporary)
        os.replace(temporary, path)

    def save(self, model, step):
        self.wait()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for name, param in model.named_parameters():
                self._buffer(name, param).copy_(param.detach(), non_blocking=True)
            self.staged.record(self.stream)
        path = os.path.join(self.directory, f"step-{step:07d}.pt")
        self.thread = threading.Thread(target=self._write, args=(path,))
        self.thread.start()

    def before_update(self):
        torch.cuda.current_stream().wait_event(self.staged)

    def wait(self):
        if self.thread is not None:
            self.thread.join()
            self.thread = None


def train(model, optimizer, loader, directory, every=500):
    checkpointer = AsyncCheckpointer(directory)
    for step, (x, y) in enumerate(loader, 1):
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        checkpointer.before_update()
        optimizer.step()
        if step % every == 0:
            checkpointer.save(model, step)
    checkpointer.wait()
