import queue
import threading
from typing import Callable

import torch


class Job:
    def __init__(self, fn: Callable[[], torch.Tensor], after: torch.cuda.Event):
        self.fn, self.after = fn, after
        self._done = threading.Event()
        self.error = None

    def result(self) -> torch.Tensor:
        self._done.wait()
        if self.error is not None:
            raise self.error
        current = torch.cuda.current_stream()
        current.wait_event(self.finished)
        self.value.record_stream(current)
        self.fn = None
        return self.value


class StreamWorker(threading.Thread):
    """Runs closures in order on one thread and one stream."""

    def __init__(self, device: int = 0):
        super().__init__(daemon=True)
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.jobs: "queue.Queue[Job]" = queue.Queue()
        self.start()

    def submit(self, fn) -> Job:
        job = Job(fn, torch.cuda.current_stream(self.device).record_event())
        self.jobs.put(job)
        return job

    def run(self):
        torch.cuda.set_device(self.device)
        with torch.cuda.stream(self.stream):
            while (job := self.jobs.get()) is not None:
                try:
                    self.stream.wait_event(job.after)
                    with torch.no_grad():
                        job.value = job.fn()
                    job.finished = self.stream.record_event()
                except Exception as exc:
                    job.error = exc
                finally:
                    job._done.set()

    def close(self):
        self.jobs.put(None)
        self.join()


def main():
    worker = StreamWorker()
    basis = torch.linalg.qr(torch.randn(1024, 64, device="cuda")).Q
    pending = []
    energy = torch.zeros((), device="cuda")
    for i in range(64):
        x = torch.randn(512, 1024, device="cuda")
        pending.append(worker.submit(lambda x=x: (x @ basis).square().sum(dim=1)))
        if len(pending) > 2:
            energy += pending.pop(0).result().mean()
    for job in pending:
        energy += job.result().mean()
    worker.close()
    print(energy.item() / 64)


if __name__ == "__main__":
    main()
