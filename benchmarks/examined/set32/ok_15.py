"""Checkpoints without stopping the training loop: staged on a copy stream, written by a thread."""
import os
from concurrent.futures import ThreadPoolExecutor

import torch


class AsyncCheckpointer:
    """Snapshots parameters and optimizer tensors between two optimizer steps."""

    def __init__(self, model, optimizer, folder):
        self.model = model
        self.optimizer = optimizer
        self.folder = folder
        self.stream = torch.cuda.Stream()
        self.pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ckpt")
        self.stage = {}
        self._staged = None
        self._written = None
        optimizer.register_step_pre_hook(self._before_step)

    def _tensors(self):
        for name, p in self.model.named_parameters():
            yield f"model.{name}", p.detach()
            for key, value in self.optimizer.state.get(p, {}).items():
                if torch.is_tensor(value) and value.is_cuda:
                    yield f"optim.{name}.{key}", value

    def _before_step(self, optimizer, args, kwargs):
        if self._staged is not None:
            torch.cuda.current_stream().wait_event(self._staged)

    def _buffer(self, name, like):
        buf = self.stage.get(name)
        if buf is None or buf.shape != like.shape or buf.dtype != like.dtype:
            buf = torch.empty(like.shape, dtype=like.dtype, pin_memory=True)
            self.stage[name] = buf
        return buf

    def save(self, step):
        self.finish()
        self.stream.wait_stream(torch.cuda.current_stream())
        names = []
        with torch.cuda.stream(self.stream):
            for name, tensor in self._tensors():
                self._buffer(name, tensor).copy_(tensor, non_blocking=True)
                tensor.record_stream(self.stream)
                names.append(name)
            staged = torch.cuda.Event(blocking=True)
            staged.record(self.stream)
        self._staged = staged
        self._written = self.pool.submit(self._write, staged, names, step)

    def _write(self, staged, names, step):
        staged.synchronize()
        path = os.path.join(self.folder, f"step-{step:08d}.pt")
        torch.save({"step": step, "tensors": {n: self.stage[n] for n in names}}, path + ".tmp")
        os.replace(path + ".tmp", path)
        return path

    def finish(self):
        """Waits for the previous checkpoint, if any, and returns its path."""
        if self._written is None:
            return None
        path = self._written.result()
        self._written = None
        return path

    def close(self):
        self.finish()
        self.pool.shutdown()


def train(folder, steps=1000, every=100, dim=2048):
    device = torch.device("cuda")
    model = torch.nn.Sequential(
        *[torch.nn.Sequential(torch.nn.Linear(dim, dim), torch.nn.GELU()) for _ in range(8)]
    ).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ckpt = AsyncCheckpointer(model, opt, folder)
    for step in range(1, steps + 1):
        x = torch.randn(256, dim, device=device)
        loss = (model(x) - x.flip(-1)).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % every == 0:
            ckpt.save(step)
    ckpt.close()
    return loss.item()


if __name__ == "__main__":
    os.makedirs("/tmp/ckpt", exist_ok=True)
    print(train("/tmp/ckpt"))
