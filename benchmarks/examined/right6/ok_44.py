import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream

rmm.mr.set_current_device_resource(
    rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=1 << 28))


class Column:
    """A fixed width column whose buffer belongs to the stream that made it."""

    def __init__(self, buf, dtype, stream):
        self.buf, self.dtype, self.stream = buf, np.dtype(dtype), stream

    @classmethod
    def from_host(cls, values, stream):
        buf = rmm.DeviceBuffer.to_device(values.view(np.uint8), stream=stream)
        return cls(buf, values.dtype, stream)

    def duplicate(self):
        clone = rmm.DeviceBuffer(ptr=self.buf.ptr, size=self.buf.size, stream=self.stream)
        return Column(clone, self.dtype, self.stream)

    def to_host(self):
        out = np.empty(self.buf.size, np.uint8)
        self.buf.copy_to_host(out, stream=self.stream)
        self.stream.synchronize()
        return out.view(self.dtype)


def roundtrip(tables):
    streams = [Stream() for _ in range(3)]
    kept = []
    for k, values in enumerate(tables):
        stream = streams[k % len(streams)]
        source = Column.from_host(values, stream)
        kept.append(source.duplicate())
        del source
    return [c.to_host() for c in kept]


if __name__ == "__main__":
    rng = np.random.default_rng(5)
    tables = [rng.random(10000 + 100 * k) for k in range(12)]
    print(all(np.array_equal(a, b) for a, b in zip(tables, roundtrip(tables))))
