"""Exponential moving average of the weights, kept off the training stream."""
import contextlib

import torch


class ShadowWeights:
    def __init__(self, model, decay=0.999):
        self.decay = decay
        self.live = [p.detach() for p in model.parameters()]
        self.shadow = [p.clone() for p in self.live]
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.updates = 0

    @torch.no_grad()
    def refresh(self):
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            torch._foreach_lerp_(self.shadow, self.live, 1.0 - decay)

    def settle(self):
        torch.cuda.current_stream().wait_stream(self.stream)

    @contextlib.contextmanager
    def swapped_in(self):
        self.settle()
        kept = [p.clone() for p in self.live]
        torch._foreach_copy_(self.live, self.shadow)
        try:
            yield
        finally:
            torch._foreach_copy_(self.live, kept)

    @property
    def horizon(self):
        """How many updates back the average reaches, roughly."""
        return 1.0 / max(1.0 - self.decay, 1e-12)

    def __len__(self):
        return len(self.shadow)
