"""Two captured copies of a model; one is fed while the other runs."""
import numpy as np
import torch


class PingPong:
    def __init__(self, model, shape, device="cuda"):
        self.device = torch.device(device)
        self.feed = torch.cuda.Stream(self.device)
        self.exec = torch.cuda.Stream(self.device)
        self.exec.wait_stream(torch.cuda.current_stream(self.device))
        self.host_in = [torch.zeros(shape, pin_memory=True) for _ in range(2)]
        self.graphs, self.inputs, self.outputs = [], [], []
        for _ in range(2):
            self._capture(model, shape)
        self.host_out = [
            torch.empty(o.shape, dtype=o.dtype, pin_memory=True) for o in self.outputs
        ]
        self.exec.synchronize()
        self.fed = [torch.cuda.Event() for _ in range(2)]
        self.ran = [torch.cuda.Event() for _ in range(2)]
        self.tick = 0
        self.waiting = []

    @torch.no_grad()
    def _capture(self, model, shape):
        with torch.cuda.stream(self.exec):
            x = torch.zeros(shape, device=self.device)
            for _ in range(2):
                model(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.exec):
            y = model(x)
        self.graphs.append(graph)
        self.inputs.append(x)
        self.outputs.append(y)

    def push(self, array):
        side = self.tick % 2
        if len(self.waiting) == 2:
            raise RuntimeError("pop a result first")
        self.fed[side].synchronize()
        self.host_in[side].numpy()[...] = array
        with torch.cuda.stream(self.feed):
            self.feed.wait_event(self.ran[side])
            self.inputs[side].copy_(self.host_in[side], non_blocking=True)
            self.fed[side].record()
        with torch.cuda.stream(self.exec):
            self.exec.wait_event(self.fed[side])
            self.graphs[side].replay()
            self.host_out[side].copy_(self.outputs[side], non_blocking=True)
            self.ran[side].record()
        self.waiting.append(side)
        self.tick += 1

    def pop(self):
        side = self.waiting.pop(0)
        self.ran[side].synchronize()
        return self.host_out[side].numpy().copy()

    def map(self, arrays):
        results = []
        for array in arrays:
            if len(self.waiting) == 2:
                results.append(self.pop())
            self.push(np.asarray(array, dtype=np.float32))
        while self.waiting:
            results.append(self.pop())
        return results
