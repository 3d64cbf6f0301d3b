"""Sums gradients on a side stream while the backward pass goes on."""

import torch


class GradientReducer:
    """Adds up buckets on its own stream. The event is recorded before the sum it stands for."""

    def __init__(self, size, device):
        self.stream = torch.cuda.Stream(device)
        self.ready = torch.cuda.Event()
        self.total = torch.zeros(size, device=device)

    def reduce(self, buckets):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.ready.record()
            self.total.zero_()
            for bucket in buckets:
                self.total.add_(bucket)
                bucket.record_stream(self.stream)

    def step(self, weights, rate):
        torch.cuda.current_stream().wait_event(self.ready)
        weights.sub_(self.total, alpha=rate)


class OrderedReducer(GradientReducer):
    """The same, with the event where the sum ends, and the next sum after the step that reads this one."""

    def reduce(self, buckets):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.total.zero_()
            for bucket in buckets:
                self.total.add_(bucket)
                bucket.record_stream(self.stream)
            self.ready.record()


def train(model, batches, weights, device):
    """One epoch: the reducer's stream is joined again before each step."""
    reducer = OrderedReducer(weights.numel(), device)
    for batch in batches:
        gradients = torch.autograd.grad(model(batch).sum(), weights)
        reducer.reduce(gradients)
        reducer.step(weights, 0.1)
