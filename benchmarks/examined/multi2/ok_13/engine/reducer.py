import torch
import torch.distributed as dist


class Reducer:
    """Averages gradients one by one while the backward pass goes on."""

    def __init__(self, world_size, device):
        self.scale = 1.0 / world_size
        self.device = device
        self.side = torch.cuda.Stream(device, priority=-1)
        self.final = torch.cuda.Event()
        self._events = {}

    def _event_for(self, param):
        key = id(param)
        if key not in self._events:
            self._events[key] = torch.cuda.Event()
        return self._events[key]

    def on_accumulated(self, param):
        produced = self._event_for(param)
        produced.record()
        self.side.wait_event(produced)
        with torch.cuda.stream(self.side):
            dist.all_reduce(param.grad)
            param.grad.mul_(self.scale)

    def before_step(self, optimizer, args, kwargs):
        self.final.record(self.side)
        self.final.wait()
