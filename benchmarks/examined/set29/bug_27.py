"""Uploads record batches to device tables. Host batches are re-packed into
page-locked memory first so that the copies do not block the driver thread."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
import pycuda.tools as tools
from pycuda.compiler import SourceModule

mod = SourceModule("""
__global__ void weighted(const float *price, const float *qty, double *acc, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(acc, (double)price[i] * qty[i]);
}
""", options=["-arch=sm_70"])
weighted = mod.get_function("weighted")

host_pool = tools.PageLockedMemoryPool()
dev_pool = tools.DeviceMemoryPool()


class DeviceTable:
    def __init__(self, columns, rows):
        self.columns = columns
        self.rows = rows


class CudfFromVelox:
    def __init__(self):
        self.stream = drv.Stream()

    def _pack(self, batch):
        packed = {}
        for name, col in batch.items():
            buf = host_pool.allocate(col.shape, col.dtype)
            buf[:] = col
            packed[name] = buf
        return packed

    def to_cudf_table(self, batch):
        host = self._pack(batch)
        columns = {}
        rows = 0
        for name, buf in host.items():
            d = dev_pool.allocate(buf.nbytes)
            drv.memcpy_htod_async(int(d), buf, self.stream)
            columns[name] = d
            rows = buf.size
        return DeviceTable(columns, rows)


class Aggregation:
    def __init__(self, stream):
        self.stream = stream
        self.acc = drv.mem_alloc(8)
        drv.memset_d8_async(int(self.acc), 0, 8, self.stream)

    def add(self, table):
        n = table.rows
        weighted(table.columns["price"], table.columns["qty"], self.acc, np.int32(n),
                 block=(256, 1, 1), grid=((n + 255) // 256, 1), stream=self.stream)

    def result(self):
        self.stream.synchronize()
        out = np.empty(1, dtype=np.float64)
        drv.memcpy_dtoh(out, self.acc)
        return float(out[0])


def run(batches):
    source = CudfFromVelox()
    agg = Aggregation(source.stream)
    for batch in batches:
        table = source.to_cudf_table(batch)
        agg.add(table)
    return agg.result()


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    data = [{"price": rng.random(1 << 21, dtype=np.float32),
             "qty": rng.random(1 << 21, dtype=np.float32)} for _ in range(12)]
    print(run(data), sum(float((b["price"].astype(np.float64) * b["qty"]).sum()) for b in data))
