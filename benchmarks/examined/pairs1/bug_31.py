"""Out-of-core MLP stack in CuPy: weights pass through the device one layer at a time."""
import cupy as cp
import cupyx
import numpy as np


class WeightFeed:
    def __init__(self, host_layers):
        self.host_layers = host_layers
        self.stream = cp.cuda.Stream(non_blocking=True)

    def __iter__(self):
        for host in self.host_layers:
            with self.stream:
                weight = cp.empty(host.shape, dtype=host.dtype)
                weight.set(host, stream=self.stream)
                ready = self.stream.record()
            yield weight, ready


class OutOfCoreMLP:
    def __init__(self, host_layers):
        self.feed = WeightFeed(host_layers)
        self.compute = cp.cuda.Stream(non_blocking=True)

    def forward(self, x):
        for weight, ready in self.feed:
            self.compute.wait_event(ready)
            with self.compute:
                x = cp.tanh(x @ weight)
        return x


def make_layer(dim, rng):
    layer = cupyx.empty_pinned((dim, dim), dtype=np.float32)
    layer[...] = rng.standard_normal((dim, dim), dtype=np.float32) / np.sqrt(dim)
    return layer


def main(dim=4096, depth=24, rounds=10):
    rng = np.random.default_rng(0)
    mlp = OutOfCoreMLP([make_layer(dim, rng) for _ in range(depth)])
    with mlp.compute:
        x = cp.asarray(rng.standard_normal((256, dim), dtype=np.float32))
    for _ in range(rounds):
        x = mlp.forward(x)
    mlp.compute.synchronize()
    return float(cp.asnumpy(x).mean())


if __name__ == "__main__":
    print(main())
