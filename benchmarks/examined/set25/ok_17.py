import queue
import threading

import torch
import torch.nn as nn


class CPUAdam:
    def __init__(self, master, lr):
        self.opt = torch.optim.Adam(master, lr=lr)

    def step(self, master, grads):
        for p, g in zip(master, grads):
            p.grad = g
        self.opt.step()


class OptimizerWorker(threading.Thread):
    def __init__(self, master, grads, lr):
        super().__init__(daemon=True)
        self.master = master
        self.grads = grads
        self.adam = CPUAdam(master, lr)
        self.todo = queue.Queue()
        self.done = queue.Queue()

    def run(self):
        while True:
            event = self.todo.get()
            if event is None:
                return
            event.synchronize()
            self.adam.step(self.master, self.grads)
            self.done.put(True)


class OverlapEngine:
    """Runs the Adam step on the host while the next forward and backward use the old weights."""

    def __init__(self, model, lr=1e-3):
        self.params = list(model.parameters())
        self.master = [p.detach().float().cpu().pin_memory() for p in self.params]
        self.grads = [torch.zeros(p.shape, pin_memory=True) for p in self.params]
        self.accum = [torch.zeros(p.shape, device="cuda") for p in self.params]
        self.d2h = torch.cuda.Stream()
        self.h2d = torch.cuda.Stream()
        self.worker = OptimizerWorker(self.master, self.grads, lr)
        self.worker.start()
        self.in_flight = False
        self.uploaded = None
        self.d2h.wait_stream(torch.cuda.current_stream())

    def collect(self):
        if not self.in_flight:
            return
        self.worker.done.get()
        self.in_flight = False
        current = torch.cuda.current_stream()
        self.h2d.wait_stream(current)
        with torch.cuda.stream(self.h2d), torch.no_grad():
            for p, m in zip(self.params, self.master):
                p.copy_(m, non_blocking=True)
            self.uploaded = self.h2d.record_event()
        current.wait_event(self.uploaded)

    def submit(self):
        current = torch.cuda.current_stream()
        current.wait_stream(self.d2h)
        for a, p in zip(self.accum, self.params):
            a.copy_(p.grad)
            p.grad = None
        self.d2h.wait_stream(current)
        with torch.cuda.stream(self.d2h):
            for host, a in zip(self.grads, self.accum):
                host.copy_(a, non_blocking=True)
            event = self.d2h.record_event()
        if self.uploaded is not None:
            self.uploaded.synchronize()
        self.worker.todo.put(event)
        self.in_flight = True

    def step(self):
        self.collect()
        self.submit()

    def close(self):
        self.collect()
        self.worker.todo.put(None)
        self.worker.join()


def main():
    model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).cuda()
    engine = OverlapEngine(model)
    for step in range(50):
        loss = model(torch.randn(256, 1024, device="cuda")).square().mean()
        loss.backward()
        engine.step()
        if step % 10 == 0:
            print(step, loss.item())
    engine.close()


if __name__ == "__main__":
    main()
