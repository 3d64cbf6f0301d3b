import torch


class HostOptimizer:
    def __init__(self, params):
        self.params = [p for p in params if p.requires_grad]
        self.master = [p.detach().cpu().pin_memory() for p in self.params]
        self.grads = [
            torch.zeros(p.shape, dtype=p.dtype, pin_memory=True) for p in self.params
        ]
        self._down = torch.cuda.Stream()
        self._up = torch.cuda.Stream()
        self._sent = torch.cuda.Event()
        self.t = 0

    def update(self, i, weight, grad):
        raise NotImplementedError

    @torch.no_grad()
    def step(self):
        here = torch.cuda.current_stream()
        self._down.wait_stream(here)
        with torch.cuda.stream(self._down):
            for p, g in zip(self.params, self.grads):
                g.copy_(p.grad, non_blocking=True)
        self._down.synchronize()
        self._sent.synchronize()
        self.t += 1
        for i, (w, g) in enumerate(zip(self.master, self.grads)):
            self.update(i, w, g)
        self._up.wait_stream(here)
        with torch.cuda.stream(self._up):
            for p, w in zip(self.params, self.master):
                p.copy_(w, non_blocking=True)
            self._sent.record(self._up)
        here.wait_stream(self._up)

    def zero_grad(self):
        for p in self.params:
            p.grad = None
