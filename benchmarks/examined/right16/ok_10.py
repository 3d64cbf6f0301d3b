"""Asynchronous checkpoints: device snapshot, background download, background write."""
from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import torch


class AsyncCheckpointer:
    def __init__(self, directory: str | os.PathLike, device: torch.device, keep: int = 3):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.keep = keep
        self._device = device
        self._download = torch.cuda.Stream(device=device)
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ckpt")
        self._futures: list[Future[Path]] = []

    def save(self, step: int, state: dict[str, torch.Tensor]) -> Future[Path]:
        for name, tensor in state.items():
            if tensor.is_cuda and tensor.device != self._device:
                raise ValueError(f"{name} is on {tensor.device}, expected {self._device}")
        snapshot = {name: tensor.detach().clone() for name, tensor in state.items()}
        self._download.wait_stream(torch.cuda.current_stream(self._device))
        host: dict[str, torch.Tensor] = {}
        with torch.cuda.stream(self._download):
            for name, tensor in snapshot.items():
                if not tensor.is_cuda:
                    host[name] = tensor
                    continue
                target = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
                target.copy_(tensor, non_blocking=True)
                tensor.record_stream(self._download)
                host[name] = target
            landed = self._download.record_event()
        future = self._pool.submit(self._write, step, host, landed)
        self._futures.append(future)
        return future

    def _write(self, step: int, host: dict[str, torch.Tensor], landed: torch.cuda.Event) -> Path:
        landed.synchronize()
        final = self.directory / f"step_{step:08d}.pt"
        partial = final.with_suffix(".tmp")
        torch.save(host, partial)
        os.replace(partial, final)
        stale = sorted(self.directory.glob("step_*.pt"))[: -self.keep]
        for path in stale:
            path.unlink(missing_ok=True)
        return final

    def wait(self) -> None:
        futures, self._futures = self._futures, []
        for future in futures:
            future.result()

    def __enter__(self) -> "AsyncCheckpointer":
        return self

    def __exit__(self, *exc) -> None:
        try:
            self.wait()
        finally:
            self._pool.shutdown(wait=True)


def main() -> None:
    device = torch.device("cuda", 0)
    model = torch.nn.Linear(2048, 2048).to(device)
    optim = torch.optim.SGD(model.parameters(), lr=0.1)
    with AsyncCheckpointer("/tmp/ckpt_demo", device) as checkpointer:
        for step in range(50):
            loss = model(torch.randn(128, 2048, device=device)).square().mean()
            loss.backward()
            optim.step()
            optim.zero_grad(set_to_none=True)
            if step % 10 == 0:
                checkpointer.save(step, model.state_dict())
    print(loss.item())


if __name__ == "__main__":
    main()
