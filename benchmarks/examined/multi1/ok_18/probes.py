import math

import torch

_probe_lane = None


def _lane():
    global _probe_lane
    if _probe_lane is None:
        _probe_lane = torch.cuda.Stream(priority=-1)
    return _probe_lane


@torch.no_grad()
def total_norm(tensors, ord=2.0):
    lane = _lane()
    lane.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(lane):
        parts = torch.stack([t.norm(ord) for t in tensors])
        return parts.norm(ord).item()


@torch.no_grad()
def all_finite(tensors):
    lane = _lane()
    lane.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(lane):
        flags = torch.stack([torch.isfinite(t).all() for t in tensors])
        return bool(flags.all().item())


def healthy(value, limit=1e6):
    return math.isfinite(value) and value < limit
