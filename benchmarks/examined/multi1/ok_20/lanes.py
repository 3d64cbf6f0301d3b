import threading
from contextlib import contextmanager

import torch

_local = threading.local()


def place(model, device="cuda:0"):
    model = model.to(device).eval()
    for p in model.parameters():
        p.requires_grad_(False)
    torch.cuda.synchronize(device)
    return model


class WorkerLane:
    def __init__(self, device):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(device=self.device)
        self.served = 0

    @contextmanager
    def enter(self):
        with torch.cuda.stream(self.stream):
            yield self
        self.served += 1


def my_lane(device="cuda:0"):
    lane = getattr(_local, "lane", None)
    if lane is None:
        torch.cuda.set_device(device)
        lane = _local.lane = WorkerLane(device)
    return lane
