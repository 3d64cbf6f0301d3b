import threading

import torch


class GraphEngine:
    def __init__(self, model, example, warmup=3):
        self.model = model
        self._lock = threading.Lock()
        self._x = example.clone()
        lane = torch.cuda.Stream()
        lane.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(lane):
            for _ in range(warmup):
                model(self._x)
        torch.cuda.current_stream().wait_stream(lane)
        self._graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self._graph):
            self._y = model(self._x)
        torch.cuda.synchronize()

    @property
    def capacity(self):
        return self._x.shape[0]

    @torch.no_grad()
    def infer(self, x):
        n = x.shape[0]
        with self._lock:
            self._x[:n].copy_(x)
            self._graph.replay()
            return self._y[:n].clone()


def make_engine(model, shape, device="cuda"):
    model = model.to(device).eval()
    return GraphEngine(model, torch.zeros(shape, device=device))
