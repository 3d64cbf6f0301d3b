"""Activation offloading for a stack of Warp kernels."""
import numpy as np
import warp as wp


@wp.kernel
def layer_forward(x: wp.array(dtype=float), w: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.tanh(w * x[i])


@wp.kernel
def layer_backward(
    y: wp.array(dtype=float), w: float, dy: wp.array(dtype=float), dx: wp.array(dtype=float)
):
    i = wp.tid()
    dx[i] = w * (1.0 - y[i] * y[i]) * dy[i]


class ActivationOffloader:
    def __init__(self, count, n, device):
        self.device = device
        self.copy_stream = wp.Stream(device)
        self.host = [
            wp.empty(n, dtype=float, device="cpu", pinned=True) for _ in range(count)
        ]

    def offload(self, i, activation):
        wp.copy(self.host[i], activation, stream=self.copy_stream)

    def done(self):
        wp.synchronize_stream(self.copy_stream)

    def fetch(self, i, dest):
        wp.copy(dest, self.host[i])


class Network:
    def __init__(self, weights, n, device="cuda:0"):
        self.weights = weights
        self.n = n
        self.device = wp.get_device(device)
        self.offloader = ActivationOffloader(len(weights), n, self.device)
        self.activations = [wp.zeros(n, dtype=float, device=self.device) for _ in weights]
        self.scratch = wp.zeros(n, dtype=float, device=self.device)

    def forward(self, x):
        cur = x
        for i, w in enumerate(self.weights):
            out = self.activations[i]
            wp.launch(layer_forward, dim=self.n, inputs=[cur, w], outputs=[out], device=self.device)
            self.offloader.offload(i, out)
            cur = out
        return cur

    def backward(self, grad):
        self.offloader.done()
        for i in reversed(range(len(self.weights))):
            self.offloader.fetch(i, self.scratch)
            dx = wp.empty(self.n, dtype=float, device=self.device)
            wp.launch(
                layer_backward,
                dim=self.n,
                inputs=[self.scratch, self.weights[i], grad],
                outputs=[dx],
                device=self.device,
            )
            grad = dx
        return grad


def main(n=1 << 22):
    wp.init()
    net = Network([0.9, 1.1, 0.7, 1.3], n)
    for step in range(8):
        x = wp.array(np.random.rand(n).astype(np.float32), device=net.device)
        net.forward(x)
        grad = net.backward(wp.full(n, 1.0, dtype=float, device=net.device))
        print(step, grad.numpy().mean())


if __name__ == "__main__":
    main()
