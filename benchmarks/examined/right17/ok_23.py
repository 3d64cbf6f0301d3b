"""Asynchronous checkpoints written from reusable pinned staging memory."""
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Dict, Optional

import torch
from torch import nn


class AsyncCheckpointer:
    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, directory: str):
        self.model = model
        self.directory = directory
        self.device = next(model.parameters()).device
        self.stream = torch.cuda.Stream(device=self.device)
        self.copied = torch.cuda.Event()
        self.pool = ThreadPoolExecutor(max_workers=1)
        self.staging: Dict[str, torch.Tensor] = {}
        self.writing: Optional[Future] = None
        optimizer.register_step_pre_hook(lambda *unused: self._before_update())

    def _stage(self, name: str, t: torch.Tensor) -> torch.Tensor:
        buf = self.staging.get(name)
        if buf is None or buf.shape != t.shape or buf.dtype != t.dtype:
            buf = self.staging[name] = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        return buf

    @torch.no_grad()
    def save(self, step: int) -> None:
        self.wait()
        current = torch.cuda.current_stream(self.device)
        trained = {name for name, _ in self.model.named_parameters()}
        state = {n: t if n in trained else t.clone() for n, t in self.model.state_dict().items()}
        for t in state.values():
            t.record_stream(self.stream)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            try:
                for name, t in state.items():
                    self._stage(name, t).copy_(t, non_blocking=True)
            finally:
                self.copied.record(self.stream)
        path = os.path.join(self.directory, f"step_{step:08d}.pt")
        views = {name: self.staging[name] for name in state}
        self.writing = self.pool.submit(self._write, path, views)

    def _write(self, path: str, state: Dict[str, torch.Tensor]) -> str:
        self.copied.synchronize()
        tmp = path + ".tmp"
        torch.save(state, tmp)
        os.replace(tmp, path)
        return path

    def _before_update(self) -> None:
        torch.cuda.current_stream(self.device).wait_event(self.copied)

    def wait(self) -> Optional[str]:
        writing, self.writing = self.writing, None
        return None if writing is None else writing.result()

    def close(self) -> None:
        try:
            self.wait()
        finally:
            self.pool.shutdown(wait=True)
            self.stream.synchronize()


def train(model: nn.Module, optimizer, batches, directory: str, every: int = 100) -> int:
    checkpointer = AsyncCheckpointer(model, optimizer, directory)
    step = 0
    try:
        for step, (x, y) in enumerate(batches, start=1):
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            if step % every == 0:
                checkpointer.save(step)
    finally:
        checkpointer.close()
    return step
