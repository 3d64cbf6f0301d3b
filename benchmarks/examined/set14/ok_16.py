import os

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
import pycuda.gpuarray as gpuarray
from pycuda.compiler import SourceModule

SGD = SourceModule(
    """
__global__ void sgd(float *w, const float *g, float *m, float lr, float mu, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = mu * m[i] - lr * g[i];
        m[i] = v;
        w[i] += v;
    }
}
"""
).get_function("sgd")


class Layer:
    def __init__(self, name, shape, rng):
        self.name = name
        scale = np.sqrt(3.0 / np.prod(shape[1:]))
        self.weights = gpuarray.to_gpu(rng.uniform(-scale, scale, shape).astype(np.float32))
        self.grad = gpuarray.zeros(shape, np.float32)
        self.momentum = gpuarray.zeros(shape, np.float32)
        self.host = drv.pagelocked_empty(shape, np.float32)

    def file_name(self, directory):
        return os.path.join(directory, self.name + ".bin")


class LeNet:
    SHAPES = {"conv1": (20, 25), "conv2": (50, 500), "ip1": (500, 800), "ip2": (10, 500)}

    def __init__(self, learning_rate=0.01, momentum=0.9, seed=0):
        rng = np.random.default_rng(seed)
        self.layers = [Layer(name, shape, rng) for name, shape in self.SHAPES.items()]
        self.learning_rate = np.float32(learning_rate)
        self.momentum = np.float32(momentum)
        self.stream = drv.Stream()

    def update(self):
        for layer in self.layers:
            n = int(layer.weights.size)
            SGD(
                layer.weights,
                layer.grad,
                layer.momentum,
                self.learning_rate,
                self.momentum,
                np.int32(n),
                block=(256, 1, 1),
                grid=((n + 255) // 256, 1),
                stream=self.stream,
            )

    def save(self, directory):
        os.makedirs(directory, exist_ok=True)
        for layer in self.layers:
            drv.memcpy_dtoh_async(layer.host, layer.weights.gpudata, self.stream)
        self.stream.synchronize()
        for layer in self.layers:
            layer.host.tofile(layer.file_name(directory))

    def load(self, directory):
        for layer in self.layers:
            path = layer.file_name(directory)
            if not os.path.exists(path):
                return False
            layer.host[...] = np.fromfile(path, np.float32).reshape(layer.host.shape)
            drv.memcpy_htod_async(layer.weights.gpudata, layer.host, self.stream)
        self.stream.synchronize()
        return True


def train(net, backward, iterations, directory, every=1000):
    net.load(directory)
    for i in range(iterations):
        backward(net)
        net.update()
        if (i + 1) % every == 0:
            net.save(directory)
    net.save(directory)
    net.stream.synchronize()
