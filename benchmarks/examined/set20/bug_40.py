"""Captured decode step with low-rank adapters that can be swapped at run time."""
import cupy as cp
import cupyx
import numpy as np

GELU_ADD = cp.ElementwiseKernel(
    "float32 h, float32 d, float32 s", "float32 y",
    "float v = h + s * d; y = 0.5f * v * (1.0f + erff(v * 0.70710678f))", "gelu_add")


class AdapterLayer:
    def __init__(self, width, rank, batch, rng):
        self.weight = rng.standard_normal((width, width), dtype=cp.float32) / 32
        self.lora_a = cp.zeros((width, rank), dtype=cp.float32)
        self.lora_b = cp.zeros((rank, width), dtype=cp.float32)
        self.hidden = cp.empty((batch, width), dtype=cp.float32)
        self.low = cp.empty((batch, rank), dtype=cp.float32)
        self.delta = cp.empty((batch, width), dtype=cp.float32)
        self.out = cp.empty((batch, width), dtype=cp.float32)

    def load_adapter(self, lora_a, lora_b):
        self.lora_a = cp.asarray(lora_a, dtype=cp.float32)
        self.lora_b = cp.asarray(lora_b, dtype=cp.float32)

    def forward(self, x):
        cp.matmul(x, self.weight, out=self.hidden)
        cp.matmul(x, self.lora_a, out=self.low)
        cp.matmul(self.low, self.lora_b, out=self.delta)
        GELU_ADD(self.hidden, self.delta, np.float32(0.5), self.out)
        return self.out


class DecodeGraph:
    def __init__(self, width=1024, rank=32, batch=64, nlayers=6):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            rng = cp.random.RandomState(0)
            self.layers = [AdapterLayer(width, rank, batch, rng) for _ in range(nlayers)]
            self.x = cp.zeros((batch, width), dtype=cp.float32)
            self._forward()
        self.stream.synchronize()
        self.exec = None
        self.capture()

    def _forward(self):
        h = self.x
        for layer in self.layers:
            h = layer.forward(h)
        self.y = h

    def capture(self):
        with self.stream:
            self.stream.begin_capture()
            self._forward()
            self.exec = self.stream.end_capture()

    def load_adapter(self, tensors):
        with self.stream:
            for layer, (a, b) in zip(self.layers, tensors):
                layer.load_adapter(a, b)

    def step(self, host_x):
        with self.stream:
            self.x.set(host_x, stream=self.stream)
            self.exec.launch(self.stream)
            return self.y.copy()


def random_adapter(rng, nlayers, width, rank):
    return [(rng.standard_normal((width, rank), dtype=np.float32),
             rng.standard_normal((rank, width), dtype=np.float32)) for _ in range(nlayers)]


def main(width=1024, rank=32, batch=64, nlayers=6, steps=30):
    rng = np.random.default_rng(0)
    graph = DecodeGraph(width, rank, batch, nlayers)
    host_x = cupyx.empty_pinned((batch, width), dtype=np.float32)
    host_x[...] = rng.standard_normal((batch, width))
    history = []
    for k in range(steps):
        if k % 10 == 0:
            graph.load_adapter(random_adapter(rng, nlayers, width, rank))
        history.append(graph.step(host_x))
    with graph.stream:
        return cp.asnumpy(cp.stack(history).mean(axis=(1, 2)))


if __name__ == "__main__":
    print(main())
