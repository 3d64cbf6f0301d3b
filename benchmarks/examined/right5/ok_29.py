import os
import queue
import threading

import torch
from torch import nn


class AsyncCheckpointer:
    """Snapshots parameters to pinned memory and writes them from a thread."""

    def __init__(self, model: nn.Module, directory: str):
        self.model, self.directory = model, directory
        os.makedirs(directory, exist_ok=True)
        self.host = {k: torch.empty(v.shape, dtype=v.dtype, pin_memory=True) for k, v in model.state_dict().items()}
        self.stream = torch.cuda.Stream()
        self.jobs: queue.Queue = queue.Queue()
        self.idle = threading.Semaphore(1)
        self.copied = None
        self.worker = threading.Thread(target=self._write_loop, daemon=True)
        self.worker.start()

    def snapshot(self, step: int) -> None:
        self.idle.acquire()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream), torch.no_grad():
            for k, v in self.model.state_dict().items():
                self.host[k].copy_(v, non_blocking=True)
        self.copied = self.stream.record_event()
        self.jobs.put((step, self.copied))

    def before_update(self) -> None:
        if self.copied is not None:
            torch.cuda.current_stream().wait_event(self.copied)
            self.copied = None

    def _write_loop(self) -> None:
        while (job := self.jobs.get()) is not None:
            step, copied = job
            try:
                copied.synchronize()
                path = os.path.join(self.directory, f"step{step}.pt")
                torch.save({k: v.clone() for k, v in self.host.items()}, path + ".tmp")
                os.replace(path + ".tmp", path)
            finally:
                self.idle.release()

    def close(self) -> None:
        self.jobs.put(None)
        self.worker.join()


def main():
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(4)]).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    ckpt = AsyncCheckpointer(model, "ckpt")
    for step in range(100):
        model(torch.randn(64, 2048, device="cuda")).square().mean().backward()
        ckpt.before_update()
        opt.step()
        opt.zero_grad()
        if step % 25 == 24:
            ckpt.snapshot(step)
    ckpt.close()


if __name__ == "__main__":
    main()
