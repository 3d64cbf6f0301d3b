"""Two independent sweeps on streams, coupled by a kernel on the legacy default stream."""
import numpy as np
from numba import cuda


@cuda.jit
def advect(q, out, speed):
    i = cuda.grid(1)
    n = q.shape[0]
    if i < n:
        out[i] = q[i] - speed * (q[i] - q[(i - 1 + n) % n])


@cuda.jit
def couple(a, b, next_a, next_b, rate):
    i = cuda.grid(1)
    if i < a.shape[0]:
        flux = rate * (a[i] - b[i])
        next_a[i] = a[i] - flux
        next_b[i] = b[i] + flux


class CoupledFields:
    def __init__(self, a, b):
        self.n = len(a)
        self.blocks = (self.n + 127) // 128
        self.left = cuda.stream()
        self.right = cuda.stream()
        self.default = cuda.legacy_default_stream()
        self.a = cuda.to_device(np.ascontiguousarray(a, dtype=np.float32))
        self.b = cuda.to_device(np.ascontiguousarray(b, dtype=np.float32))
        self.moved_a = cuda.device_array(self.n, dtype=np.float32)
        self.moved_b = cuda.device_array(self.n, dtype=np.float32)

    def step(self, speed_a, speed_b, rate):
        advect[self.blocks, 128, self.left](self.a, self.moved_a, np.float32(speed_a))
        advect[self.blocks, 128, self.right](self.b, self.moved_b, np.float32(speed_b))
        couple[self.blocks, 128, self.default](self.moved_a, self.moved_b,
                                               self.a, self.b, np.float32(rate))

    def inject(self, a):
        self.a.copy_to_device(np.ascontiguousarray(a, dtype=np.float32),
                              stream=self.default)
        self.default.synchronize()

    def snapshot(self):
        a = np.empty(self.n, dtype=np.float32)
        b = np.empty(self.n, dtype=np.float32)
        self.a.copy_to_host(a, stream=self.default)
        self.b.copy_to_host(b, stream=self.default)
        self.default.synchronize()
        return a, b


def main():
    n = 1 << 14
    x = np.linspace(0, 2 * np.pi, n, endpoint=False)
    fields = CoupledFields(np.sin(x), np.zeros(n))
    for round_ in range(5):
        for _ in range(20):
            fields.step(0.3, 0.1, 0.05)
        a, b = fields.snapshot()
        print(round_, float(a.sum()), float(b.sum()))
    fields.inject(np.cos(x))
    fields.step(0.3, 0.1, 0.05)
    print(fields.snapshot()[0][:3])


if __name__ == "__main__":
    main()
