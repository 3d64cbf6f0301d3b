"""Dynamic batching server with promise objects."""
import threading
import time
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class Request:
    payload: torch.Tensor
    arrived: float = field(default_factory=time.monotonic)
    answered: threading.Event = field(default_factory=threading.Event)
    answer: torch.Tensor = None

    def wait(self) -> torch.Tensor:
        self.answered.wait()
        return self.answer


class Batcher(threading.Thread):
    def __init__(self, model: nn.Module, limit=16, patience=0.002):
        super().__init__(daemon=True)
        self.model = model.cuda().eval()
        self.limit, self.patience = limit, patience
        self.cond = threading.Condition()
        self.queue: list[Request] = []
        self.stopped = False
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    def submit(self, payload) -> Request:
        req = Request(payload)
        with self.cond:
            self.queue.append(req)
            self.cond.notify()
        return req

    def _take(self):
        with self.cond:
            self.cond.wait_for(lambda: self.queue or self.stopped)
            if not self.queue:
                return None
            self.cond.wait_for(lambda: len(self.queue) >= self.limit, timeout=self.patience)
            batch, self.queue = self.queue[: self.limit], self.queue[self.limit:]
            return batch

    @torch.inference_mode()
    def run(self):
        stage = torch.empty(self.limit, 64, pin_memory=True)
        with torch.cuda.stream(self.stream):
            while (batch := self._take()) is not None:
                for row, req in zip(stage, batch):
                    row.copy_(req.payload)
                out = self.model(stage[: len(batch)].to("cuda", non_blocking=True))
                for req, row in zip(batch, out.cpu()):
                    req.answer = row
                    req.answered.set()

    def stop(self):
        with self.cond:
            self.stopped = True
            self.cond.notify()
        self.join()


def main():
    server = Batcher(nn.Linear(64, 8))
    server.start()
    reqs = [server.submit(torch.full((64,), float(i))) for i in range(100)]
    print(sum(r.wait().sum().item() for r in reqs))
    server.stop()


if __name__ == "__main__":
    main()
