from typing import Dict, Tuple

import torch


class CapturedFunction:
    def __init__(self, graph, static_inputs, static_output):
        self.graph = graph
        self.static_inputs = static_inputs
        self.static_output = static_output

    def __call__(self, inputs):
        for dst, src in zip(self.static_inputs, inputs):
            if dst.data_ptr() != src.data_ptr():
                dst.copy_(src)
        self.graph.replay()
        return self.static_output.clone()


class CUDAGraphTreeManager:
    """One captured function for each set of input shapes."""

    def __init__(self, fn, num_warmup=3):
        self.fn = fn
        self.num_warmup = num_warmup
        self.stream = torch.cuda.Stream()
        self.functions: Dict[Tuple, CapturedFunction] = {}

    def _key(self, inputs):
        return tuple((tuple(t.shape), t.dtype) for t in inputs)

    def _warmup(self, inputs):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(self.num_warmup):
                self.fn(*inputs)
        torch.cuda.current_stream().wait_stream(self.stream)

    def _record(self, inputs):
        static_inputs = [t.clone() for t in inputs]
        self._warmup(static_inputs)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            output = self.fn(*static_inputs)
        return CapturedFunction(graph, static_inputs, output)

    @torch.no_grad()
    def run(self, *inputs):
        key = self._key(inputs)
        if key not in self.functions:
            self.functions[key] = self._record(inputs)
        return self.functions[key](inputs)


def evaluate(model, loader, device="cuda"):
    manager = CUDAGraphTreeManager(model)
    correct = torch.zeros((), dtype=torch.long, device=device)
    total = 0
    for images, labels in loader:
        logits = manager.run(images.to(device))
        correct += (logits.argmax(-1) == labels.to(device)).sum()
        total += labels.numel()
    return correct.item() / max(total, 1)
