"""Captured inference step with a refreshable input (CuPy graphs)."""
import cupy as cp
import cupyx
import numpy as np

BIAS_TANH = cp.ElementwiseKernel("float32 x, float32 b", "float32 y", "y = tanhf(x + b)", "bias_tanh")


class GraphLaunch:
    """A launch in flight; results are available after sync()."""

    def __init__(self, graph):
        self.graph = graph
        self.done = cp.cuda.Event(disable_timing=True)
        self.done.record(graph.stream)

    def sync(self):
        self.done.synchronize()
        return self.graph.host_output.copy()


class CudaGraph:
    def __init__(self, weights, biases, batch):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.upload_stream = cp.cuda.Stream(non_blocking=True)
        self.updated = cp.cuda.Event(disable_timing=True)
        self.weights = weights
        self.biases = biases
        width = weights[0].shape[0]
        self.input = cp.zeros((batch, width), dtype=cp.float32)
        self.hidden = [cp.zeros((batch, width), dtype=cp.float32) for _ in weights]
        self.residual = cp.zeros((batch, width), dtype=cp.float32)
        self.host_output = cupyx.empty_pinned((batch, width), dtype=np.float32)
        cp.cuda.Device().synchronize()
        with self.stream:
            self._body()
            self.stream.synchronize()
            self.stream.begin_capture()
            self._body()
            self.exec = self.stream.end_capture()

    def _body(self):
        x = self.input
        for w, b, h in zip(self.weights, self.biases, self.hidden):
            cp.matmul(x, w, out=h)
            BIAS_TANH(h, b, h)
            x = h
        cp.add(x, self.input, out=self.residual)

    def update_with(self, host):
        """Refresh the input buffer the graph owns."""
        self.input.set(host, stream=self.upload_stream)
        self.updated.record(self.upload_stream)

    def launch(self):
        self.stream.wait_event(self.updated)
        self.exec.launch(self.stream)
        self.residual.get(stream=self.stream, out=self.host_output, blocking=False)
        return GraphLaunch(self)


def run(graph, batches):
    outputs = []
    graph.update_with(batches[0])
    for k in range(len(batches)):
        pending = graph.launch()
        if k + 1 < len(batches):
            graph.update_with(batches[k + 1])
        outputs.append(pending.sync())
    return outputs


def main(width=1024, batch=512, layers=8, n=20):
    rng = cp.random.RandomState(0)
    weights = [rng.standard_normal((width, width), dtype=cp.float32) / 32 for _ in range(layers)]
    biases = [cp.zeros(width, dtype=cp.float32) for _ in range(layers)]
    batches = []
    for k in range(n):
        h = cupyx.empty_pinned((batch, width), dtype=np.float32)
        h[...] = 0.01 * k
        batches.append(h)
    cp.cuda.Device().synchronize()
    graph = CudaGraph(weights, biases, batch)
    return np.stack(run(graph, batches)).mean(axis=(1, 2))


if __name__ == "__main__":
    print(main())
