import torch


class ShadowWeights:
    def __init__(self, module, decay=0.999):
        self.decay = decay
        self._src = [p for p in module.parameters() if p.requires_grad]
        self._avg = [p.detach().clone() for p in self._src]
        self._lane = torch.cuda.Stream()
        self._done = torch.cuda.Event()

    @torch.no_grad()
    def absorb(self):
        self._lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._lane):
            for a, p in zip(self._avg, self._src):
                a.lerp_(p, 1.0 - self.decay)
            self._done.record(self._lane)

    def settle(self):
        torch.cuda.current_stream().wait_event(self._done)

    @torch.no_grad()
    def copy_into(self, module):
        self.settle()
        dst = [p for p in module.parameters() if p.requires_grad]
        for d, a in zip(dst, self._avg):
            d.copy_(a)
