import torch

import registry


class Fetcher:
    def __init__(self):
        self._host = {}
        self._marks = {}

    def _buffer(self, name, like):
        buf = self._host.get(name)
        if buf is None or buf.shape != like.shape or buf.dtype != like.dtype:
            buf = torch.empty(like.shape, dtype=like.dtype, pin_memory=True)
            self._host[name] = buf
        return buf

    def request(self, name, tensor):
        snap = tensor.detach().clone()
        buf = self._buffer(name, snap)
        lane = registry.get("d2h")
        lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(lane):
            buf.copy_(snap, non_blocking=True)
            mark = torch.cuda.Event()
            mark.record()
        snap.record_stream(lane)
        self._marks[name] = mark

    def fetch(self, name):
        self._marks.pop(name).synchronize()
        return self._host[name].numpy().copy()

    def pending(self):
        return list(self._marks)
