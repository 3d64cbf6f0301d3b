"""Sensor fusion loop: a CUDA graph holds the transfers and the filter network."""
import numpy as np
import torch
import torch.nn as nn


class FusionGraph:
    def __init__(self, net, channels, length):
        self.net = net
        self.stream = torch.cuda.Stream()
        self.pinned_in = torch.zeros(1, channels, length, pin_memory=True)
        self.pinned_out = torch.zeros(1, 1, length, pin_memory=True)
        self.signal = torch.zeros(1, channels, length, device="cuda")
        self.finished = torch.cuda.Event()
        self.launched = False
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                self._record()
        self.stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self._record()

    def _record(self):
        self.signal.copy_(self.pinned_in, non_blocking=True)
        self.pinned_out.copy_(self.net(self.signal), non_blocking=True)

    def exchange(self, readings):
        """Start on the new readings; returns the result of the previous ones."""
        self.pinned_in.numpy()[0] = readings
        previous = None
        if self.launched:
            self.finished.synchronize()
            previous = self.pinned_out.numpy().copy()
        with torch.cuda.stream(self.stream):
            self.graph.replay()
            self.finished.record()
        self.launched = True
        return previous

    def last(self):
        self.finished.synchronize()
        return self.pinned_out.numpy().copy()


@torch.no_grad()
def run(seconds=60, channels=16, length=16384):
    net = nn.Sequential(
        nn.Conv1d(channels, 64, 9, padding=4), nn.ReLU(), nn.Conv1d(64, 1, 9, padding=4)).cuda()
    fusion = FusionGraph(net, channels, length)
    rng = np.random.default_rng(12)
    levels = []
    for _ in range(seconds * 10):
        previous = fusion.exchange(rng.standard_normal((channels, length), dtype=np.float32))
        if previous is not None:
            levels.append(float(np.abs(previous).mean()))
    levels.append(float(np.abs(fusion.last()).mean()))
    return levels


if __name__ == "__main__":
    print(np.mean(run()))
