import os
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import nn


class PinnedStager:
    """Copies a state dict to pinned host memory on a side stream."""

    def __init__(self, device: torch.device):
        self.stream = torch.cuda.Stream(device)
        self.cache: dict[str, torch.Tensor] = {}
        self.done: torch.cuda.Event | None = None

    def stage(self, state: dict[str, torch.Tensor]) -> torch.cuda.Event:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for key, tensor in state.items():
                if key not in self.cache:
                    self.cache[key] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
                self.cache[key].copy_(tensor, non_blocking=True)
            self.done = self.stream.record_event()
        return self.done


class CheckpointManager:
    def __init__(self, folder: str, model: nn.Module, optimizer, device, interval: int):
        self.folder = folder
        self.model = model
        self.optimizer = optimizer
        self.interval = interval
        self.stager = PinnedStager(device)
        self.executor = ThreadPoolExecutor(max_workers=1)
        self.save_future: Future | None = None
        self.staging: torch.cuda.Event | None = None

    def _state(self) -> dict[str, torch.Tensor]:
        state = {f"model.{k}": v.detach() for k, v in self.model.named_parameters()}
        for index, p in enumerate(self.model.parameters()):
            for key, value in self.optimizer.state.get(p, {}).items():
                if torch.is_tensor(value) and value.is_cuda:
                    state[f"optim.{index}.{key}"] = value
        return state

    def _persist(self, step: int, done: torch.cuda.Event) -> str:
        done.synchronize()
        path = os.path.join(self.folder, f"step-{step}.pt")
        torch.save(self.stager.cache, path + ".tmp")
        os.replace(path + ".tmp", path)
        return path

    def save(self, step: int):
        if step % self.interval:
            return
        self.async_wait()
        self.staging = self.stager.stage(self._state())
        self.save_future = self.executor.submit(self._persist, step, self.staging)

    def maybe_wait_for_staging(self):
        """To be called before the state is modified in place."""
        if self.staging is not None:
            torch.cuda.current_stream().wait_event(self.staging)
            self.staging = None

    def async_wait(self):
        if self.save_future is not None:
            self.save_future.result()
            self.save_future = None

    def close(self):
        self.async_wait()
        self.executor.shutdown()


class Trainer:
    def __init__(self, folder: str, dim: int = 1024, depth: int = 8):
        self.device = torch.device("cuda")
        self.model = nn.Sequential(
            *(nn.Sequential(nn.Linear(dim, dim), nn.GELU()) for _ in range(depth))
        ).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, fused=True)
        self.checkpointer = CheckpointManager(folder, self.model, self.optimizer, self.device, interval=5)

    def train_step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        self.checkpointer.maybe_wait_for_staging()
        self.optimizer.step()
        return loss.detach()

    def train(self, steps: int, batch: int = 256, dim: int = 1024):
        losses = []
        for step in range(1, steps + 1):
            x = torch.randn(batch, dim, device=self.device)
            losses.append(self.train_step(x, x.flip(-1)))
            self.checkpointer.save(step)
        self.checkpointer.close()
        return torch.stack(losses).tolist()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(Trainer(folder).train(20)[-1], sorted(os.listdir(folder)))
