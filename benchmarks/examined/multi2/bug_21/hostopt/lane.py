from contextlib import contextmanager

import torch


class Lane:
    """A stream beside the main one, with an event that the host can wait for."""

    def __init__(self, device):
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.event = torch.cuda.Event(blocking=True)

    @contextmanager
    def beside(self):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            yield self

    def mark(self):
        self.event.record()

    def settle(self):
        self.event.synchronize()

    def rejoin(self):
        torch.cuda.current_stream(self.device).wait_stream(self.stream)

    @property
    def idle(self):
        return self.stream.query()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stream.synchronize()
        return False
