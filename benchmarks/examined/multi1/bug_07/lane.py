from contextlib import contextmanager

import torch


class Lane:
    def __init__(self, device="cuda"):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(device=self.device)

    @contextmanager
    def open(self, join=True):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            yield self
        if join:
            self.settle()

    def settle(self):
        torch.cuda.current_stream().wait_stream(self.stream)

    def drain(self):
        self.stream.synchronize()

    def busy(self):
        return not self.stream.query()
