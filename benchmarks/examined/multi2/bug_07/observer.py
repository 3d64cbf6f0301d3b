import torch
from torch import nn

from meters import RunningStats


class CalibrationObserver:
    """Collects activation statistics beside the forward pass."""

    def __init__(self, kinds=(nn.Linear, nn.GELU)):
        self.kinds = kinds
        self.lane = torch.cuda.Stream()
        self.stats = {}
        self._handles = []

    def attach(self, model):
        for name, module in model.named_modules():
            if isinstance(module, self.kinds):
                self.stats[name] = RunningStats()
                self._handles.append(module.register_forward_hook(self._hook(name)))
        self.lane.wait_stream(torch.cuda.current_stream())
        return self

    def _hook(self, name):
        meter = self.stats[name]

        def seen(module, args, output):
            self.lane.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.lane):
                meter.add(output.detach())

        return seen

    def detach(self):
        for h in self._handles:
            h.remove()
        self._handles.clear()
        torch.cuda.current_stream().wait_stream(self.lane)

    def report(self):
        return {name: s.summary() for name, s in self.stats.items()}
