import itertools

import torch
import torch.nn as nn


class StagedInput:
    """Two device staging buffers in front of a graph's static input."""

    def __init__(self, static: torch.Tensor, depth: int = 2):
        self.static = static
        self.copy_stream = torch.cuda.Stream()
        self.staging = [torch.empty_like(static) for _ in range(depth)]
        self.arrived = [torch.cuda.Event() for _ in range(depth)]
        self.drained = [torch.cuda.Event() for _ in range(depth)]
        for event in self.drained:
            event.record()
        self.produce = itertools.cycle(range(depth))
        self.consume = itertools.cycle(range(depth))

    def push(self, host: torch.Tensor) -> None:
        k = next(self.produce)
        self.copy_stream.wait_event(self.drained[k])
        with torch.cuda.stream(self.copy_stream):
            self.staging[k].copy_(host, non_blocking=True)
        self.arrived[k].record(self.copy_stream)

    def pop(self) -> None:
        k = next(self.consume)
        self.arrived[k].wait()
        self.static.copy_(self.staging[k])
        self.drained[k].record()


class GraphedStep:
    def __init__(self, model: nn.Module, optimizer, shape, classes: int):
        self.x = torch.zeros(shape, device="cuda")
        self.y = torch.zeros(shape[0], dtype=torch.long, device="cuda")
        self.model, self.optimizer = model, optimizer
        self.loss_fn = nn.CrossEntropyLoss()
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.loss = self._step()

    def _step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_fn(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return loss

    def __call__(self):
        self.graph.replay()
        return self.loss.detach()


def fit(model, loader, shape, classes, log_every=50):
    model.cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    step = GraphedStep(model, optimizer, shape, classes)
    images, labels = StagedInput(step.x), StagedInput(step.y)
    batches = iter(loader)
    image, label = next(batches)
    images.push(image)
    labels.push(label)
    running = torch.zeros((), device="cuda")
    for index, (image, label) in enumerate(batches, start=1):
        images.pop()
        labels.pop()
        running += step()
        images.push(image)
        labels.push(label)
        if index % log_every == 0:
            print(index, running.item() / log_every)
            running.zero_()
    images.pop()
    labels.pop()
    running += step()
    return running.item()
