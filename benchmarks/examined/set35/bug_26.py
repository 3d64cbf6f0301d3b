"""Background checkpoint plugin that stages tensors through pinned memory."""
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Dict, Optional

import torch
import torch.nn as nn


class BackgroundCheckpointIO:
    def __init__(self, root: str):
        self.root = root
        os.makedirs(root, exist_ok=True)
        self.stage_stream = torch.cuda.Stream()
        self.host: Dict[str, torch.Tensor] = {}
        self.pool = ThreadPoolExecutor(max_workers=1)
        self.pending: Optional[Future] = None

    def _host_for(self, name: str, t: torch.Tensor) -> torch.Tensor:
        buf = self.host.get(name)
        if buf is None or buf.shape != t.shape or buf.dtype != t.dtype:
            buf = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
            self.host[name] = buf
        return buf

    def _write(self, payload: Dict[str, Any], staged: torch.cuda.Event, path: str) -> str:
        staged.synchronize()
        tmp = path + ".tmp"
        torch.save(payload, tmp)
        os.replace(tmp, path)
        return path

    def save_checkpoint(self, tensors: Dict[str, torch.Tensor], step: int) -> Future:
        self.wait()
        payload: Dict[str, Any] = {"step": step}
        self.stage_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stage_stream):
            for name, t in tensors.items():
                buf = self._host_for(name, t)
                buf.copy_(t.detach(), non_blocking=True)
                payload[name] = buf
            staged = torch.cuda.Event()
            staged.record()
        path = os.path.join(self.root, f"step-{step:06d}.ckpt")
        self.pending = self.pool.submit(self._write, payload, staged, path)
        return self.pending

    def wait(self) -> None:
        if self.pending is not None:
            self.pending.result()
            self.pending = None

    def teardown(self) -> None:
        self.wait()
        self.pool.shutdown()


class Fitter:
    def __init__(self, module: nn.Module, io: BackgroundCheckpointIO, every: int = 50):
        self.module = module.cuda()
        self.optimizer = torch.optim.AdamW(self.module.parameters(), lr=3e-4, fused=True)
        self.io = io
        self.every = every

    def _named(self) -> Dict[str, torch.Tensor]:
        return {f"module.{k}": v for k, v in self.module.state_dict().items()}

    def training_step(self, x: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        loss = (self.module(x) - x).pow(2).mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def fit(self, steps: int, batch: int, width: int) -> float:
        running = torch.zeros((), device="cuda")
        for step in range(1, steps + 1):
            x = torch.randn(batch, width, device="cuda")
            running += self.training_step(x)
            if step % self.every == 0:
                self.io.save_checkpoint(self._named(), step)
        self.io.teardown()
        return (running / steps).item()


def main() -> None:
    width = 4096
    net = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(16)])
    print(Fitter(net, BackgroundCheckpointIO("/tmp/ckpt")).fit(400, 256, width))


if __name__ == "__main__":
    main()
