"""Device slices with owned host sources, after the safe API of a driver wrapper."""
import cupy as cp
import numpy as np


def pinned_copy(values):
    """A page-locked copy of ``values`` from the pinned memory pool."""
    values = np.ascontiguousarray(values)
    mem = cp.cuda.alloc_pinned_memory(values.nbytes)
    out = np.frombuffer(mem, values.dtype, values.size).reshape(values.shape)
    out[...] = values
    return out


class CudaSlice:
    """Device memory and the host buffer that an upload into it reads."""

    def __init__(self, device, shape, dtype):
        self.device = device
        with device.stream:
            self.array = cp.zeros(shape, dtype=dtype)
        self.host_buf = None

    @property
    def nbytes(self):
        return self.array.nbytes


class CudaDevice:
    def __init__(self, ordinal=0):
        self.ordinal = ordinal
        cp.cuda.Device(ordinal).use()
        self.stream = cp.cuda.Stream(non_blocking=True)

    def alloc_zeros(self, shape, dtype=np.float32):
        return CudaSlice(self, shape, dtype)

    def htod_copy_into(self, src, dst):
        """Upload ``src`` into ``dst``; takes ownership of ``src``."""
        dst.array.data.copy_from_host_async(src.ctypes.data, dst.nbytes, self.stream)
        dst.host_buf = src

    def dtoh_sync_copy(self, src):
        host = src.array.get(stream=self.stream)
        src.host_buf = None
        return host

    def synchronize(self):
        self.stream.synchronize()


_axpy = cp.ElementwiseKernel("float32 a, float32 x", "float32 y", "y += a * x", "axpy")


class StreamingRegression:
    """Gradient steps over mini-batches that arrive as host arrays."""

    def __init__(self, dev, features, batch, lr=1e-3):
        self.dev = dev
        self.lr = lr
        self.w = dev.alloc_zeros(features)
        self.x = dev.alloc_zeros((batch, features))
        self.y = dev.alloc_zeros(batch)
        self.batch = batch

    def step(self, x, y):
        self.dev.htod_copy_into(pinned_copy(x), self.x)
        self.dev.htod_copy_into(pinned_copy(y), self.y)
        with self.dev.stream:
            residual = self.y.array - self.x.array @ self.w.array
            grad = self.x.array.T @ residual
            _axpy(np.float32(self.lr / self.batch), grad, self.w.array)

    def weights(self):
        return self.dev.dtoh_sync_copy(self.w)


def fit(batches, features, batch):
    dev = CudaDevice()
    model = StreamingRegression(dev, features, batch)
    for x, y in batches:
        model.step(x.astype(np.float32), y.astype(np.float32))
    dev.synchronize()
    return model.weights()
