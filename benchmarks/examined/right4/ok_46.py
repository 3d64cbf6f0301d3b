import contextlib
import threading

import torch


class ModelGate:
    def __init__(self):
        self._cond = threading.Condition()
        self._readers = 0
        self._writing = False

    @contextlib.contextmanager
    def reading(self, stream):
        with self._cond:
            self._cond.wait_for(lambda: not self._writing)
            self._readers += 1
        try:
            yield
        finally:
            stream.synchronize()
            with self._cond:
                self._readers -= 1
                self._cond.notify_all()

    @contextlib.contextmanager
    def writing(self, stream):
        with self._cond:
            self._cond.wait_for(lambda: not self._writing)
            self._writing = True
            self._cond.wait_for(lambda: self._readers == 0)
        try:
            yield
        finally:
            stream.synchronize()
            with self._cond:
                self._writing = False
                self._cond.notify_all()


class Worker(threading.Thread):
    def __init__(self, model, gate, requests, results):
        super().__init__()
        self.model, self.gate = model, gate
        self.requests, self.results = requests, results
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    @torch.no_grad()
    def run(self):
        with torch.cuda.stream(self.stream):
            for key, x in self.requests:
                with self.gate.reading(self.stream):
                    host = self.model(x.cuda()).to("cpu", non_blocking=True)
                self.results[key] = host.sum().item()


class Swapper:
    def __init__(self, model, gate):
        self.model, self.gate = model, gate
        self.stream = torch.cuda.Stream()

    @torch.no_grad()
    def load(self, checkpoint):
        with torch.cuda.stream(self.stream), self.gate.writing(self.stream):
            for name, p in self.model.named_parameters():
                p.copy_(checkpoint[name], non_blocking=True)


def main():
    model, gate, results = torch.nn.Linear(512, 512).cuda(), ModelGate(), {}
    work = [[((w, i), torch.randn(16, 512)) for i in range(50)] for w in range(3)]
    workers = [Worker(model, gate, items, results) for items in work]
    swapper = Swapper(model, gate)
    torch.cuda.synchronize()
    for w in workers:
        w.start()
    for _ in range(5):
        fresh = {n: torch.randn(p.shape).pin_memory() for n, p in model.named_parameters()}
        swapper.load(fresh)
    for w in workers:
        w.join()
    return results
