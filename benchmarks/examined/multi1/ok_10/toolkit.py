import torch

__all__ = ["offload", "onload", "drain", "nbytes"]

_lanes = {}


def _lane(kind):
    if kind not in _lanes:
        _lanes[kind] = torch.cuda.Stream()
    return _lanes[kind]


def offload(t):
    out = _lane("out")
    out.wait_stream(torch.cuda.current_stream())
    host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
    with torch.cuda.stream(out):
        host.copy_(t.detach(), non_blocking=True)
    t.record_stream(out)
    return host


def onload(host):
    into = _lane("in")
    here = torch.cuda.current_stream()
    into.wait_stream(_lane("out"))
    with torch.cuda.stream(into):
        t = host.to("cuda", non_blocking=True)
    t.record_stream(here)
    here.wait_stream(into)
    return t


def drain():
    for s in _lanes.values():
        s.synchronize()


def nbytes(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)
