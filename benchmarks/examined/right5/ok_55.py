import queue
import threading

import torch
from torch import nn


class HostGradAccumulator(threading.Thread):
    """Accumulates micro-batch gradients in host memory on a worker thread."""

    def __init__(self, params, buffers: int = 4):
        super().__init__(daemon=True)
        self.params = list(params)
        self.sums = [torch.zeros(p.shape) for p in self.params]
        width = max(p.numel() for p in self.params)
        self.stream = torch.cuda.Stream()
        self.empty, self.filled = queue.Queue(), queue.Queue()
        for _ in range(buffers):
            self.empty.put(torch.empty(width, pin_memory=True))
        for i, p in enumerate(self.params):
            p.register_post_accumulate_grad_hook(lambda p, i=i: self._spill(i, p))
        self.start()

    def _spill(self, i, p):
        buf = self.empty.get()
        grad, p.grad = p.grad, None
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            buf[:grad.numel()].copy_(grad.reshape(-1), non_blocking=True)
            event = self.stream.record_event()
        self.filled.put((i, grad, buf, event))

    def run(self):
        for i, grad, buf, event in iter(self.filled.get, None):
            event.synchronize()
            self.sums[i].view(-1).add_(buf[:grad.numel()])
            del grad
            self.empty.put(buf)
            self.filled.task_done()

    def totals(self):
        self.filled.join()
        return self.sums


def main():
    net = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).cuda()
    acc = HostGradAccumulator(net.parameters())
    for step in range(10):
        for _ in range(8):
            net(torch.randn(64, 256, device="cuda")).square().mean().backward()
        with torch.no_grad():
            for p, g in zip(acc.params, acc.totals()):
                p.add_(g.cuda(), alpha=-0.01)
                g.zero_()
    acc.filled.put(None)
    acc.join()


if __name__ == "__main__":
    main()
