from contextlib import closing

import torch


class SwapSlot:
    def __init__(self, shape):
        self.dev = torch.empty(shape, dtype=torch.float16, device="cuda")
        self.here = torch.cuda.Event()
        self.gone = torch.cuda.Event()


class SwapReader:
    def __init__(self, pages, slots=2):
        self.pages = pages
        self.slots = [SwapSlot(pages[0].shape) for _ in range(slots)]
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    def _start(self, i):
        slot = self.slots[i % len(self.slots)]
        self.stream.wait_event(slot.gone)
        with torch.cuda.stream(self.stream):
            slot.dev.copy_(self.pages[i], non_blocking=True)
            self.stream.record_event(slot.here)
        return slot

    def __iter__(self):
        ahead = self._start(0)
        for i in range(len(self.pages)):
            slot = ahead
            if i + 1 < len(self.pages):
                ahead = self._start(i + 1)
            torch.cuda.current_stream().wait_event(slot.here)
            try:
                yield slot.dev
            finally:
                slot.gone.record()


class OnlineSoftmax:
    def __init__(self, q):
        self.q = q
        self.top = torch.full((q.shape[0], 1), -1e4, device="cuda")
        self.sum = torch.zeros(q.shape[0], 1, device="cuda")
        self.acc = torch.zeros(q.shape, device="cuda")

    def update(self, kv):
        s = (self.q @ kv.t()).float()
        top = torch.maximum(self.top, s.max(-1, keepdim=True).values)
        scale, p = (self.top - top).exp(), (s - top).exp()
        self.sum = self.sum * scale + p.sum(-1, keepdim=True)
        self.acc = self.acc * scale + p @ kv.float()
        self.top = top

    def result(self):
        return self.acc / self.sum


@torch.no_grad()
def attend(reader, q):
    state = OnlineSoftmax(q)
    with closing(iter(reader)) as pages:
        for kv in pages:
            state.update(kv)
    return state.result()


def main():
    pages = [torch.randn(1024, 128).half().pin_memory() for _ in range(24)]
    reader = SwapReader(pages)
    outs = [attend(reader, torch.randn(16, 128, dtype=torch.float16, device="cuda")) for _ in range(3)]
    return torch.stack(outs).norm().item()
