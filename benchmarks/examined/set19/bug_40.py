"""Training loop with checkpoints that are copied and written by a background thread."""
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


class TorchCheckpointIO:
    def save_checkpoint(self, checkpoint, path):
        torch.save(checkpoint, path)


class AsyncCheckpointIO:
    """Takes a checkpoint off the critical path: copy and write run in a worker thread."""

    def __init__(self, base):
        self.base = base
        self.executor = ThreadPoolExecutor(max_workers=1)
        self.stream = torch.cuda.Stream()
        self.futures = []
        self.error = None

    def _to_host(self, checkpoint, ready):
        host = {}
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(ready)
            for key, value in checkpoint.items():
                if isinstance(value, torch.Tensor) and value.is_cuda:
                    cpu = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
                    cpu.copy_(value, non_blocking=True)
                    host[key] = cpu
                else:
                    host[key] = value
        self.stream.synchronize()
        return host

    def _work(self, checkpoint, ready, path):
        try:
            self.base.save_checkpoint(self._to_host(checkpoint, ready), path)
        except BaseException as exc:
            self.error = exc

    def save_checkpoint(self, checkpoint, path):
        ready = torch.cuda.Event()
        ready.record()
        self.futures.append(self.executor.submit(self._work, checkpoint, ready, path))
        if self.error is not None:
            raise self.error

    def teardown(self):
        for future in self.futures:
            future.result()
        self.executor.shutdown(wait=True)
        if self.error is not None:
            raise self.error


class Trainer:
    def __init__(self, model, checkpoint_io, root, every):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.checkpoint_io = checkpoint_io
        self.root = root
        self.every = every
        self.global_step = 0

    def dump_checkpoint(self):
        checkpoint = {f"model.{k}": v for k, v in self.model.state_dict().items()}
        for index, state in enumerate(self.optimizer.state.values()):
            for key, value in state.items():
                checkpoint[f"optim.{index}.{key}"] = value
        checkpoint["global_step"] = self.global_step
        return checkpoint

    def training_step(self, x):
        loss = (self.model(x) - x).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.global_step += 1
        return loss.detach()

    def fit(self, steps):
        losses = []
        for _ in range(steps):
            losses.append(self.training_step(torch.randn(1024, 2048, device="cuda")))
            if self.global_step % self.every == 0:
                path = os.path.join(self.root, f"step={self.global_step}.ckpt")
                self.checkpoint_io.save_checkpoint(self.dump_checkpoint(), path)
        self.checkpoint_io.teardown()
        return torch.stack(losses)


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2048, 8192), nn.GELU(), nn.Linear(8192, 2048)).cuda()
    with tempfile.TemporaryDirectory() as root:
        losses = Trainer(model, AsyncCheckpointIO(TorchCheckpointIO()), root, every=10).fit(50)
        print(losses[-1].item(), sorted(os.listdir(root)))


if __name__ == "__main__":
    main()
