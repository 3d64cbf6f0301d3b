"""Time-series boundary data kept in mapped host memory and interpolated on the GPU."""
import math

import numpy as np
from numba import cuda


@cuda.jit
def interp_kernel(before, after, alpha, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = (1.0 - alpha) * before[i] + alpha * after[i]


@cuda.jit
def apply_boundary(field, bdy, nsub):
    i = cuda.grid(1)
    if i < bdy.size:
        v = field[i]
        for _ in range(nsub):
            v = 0.5 * (v + bdy[i])
        field[i] = v


class NCTimeSeriesBoundary:
    def __init__(self, records, times, npts, stream):
        self.records = records
        self.times = times
        self.stream = stream
        self.before = cuda.mapped_array(npts, dtype=np.float64)
        self.after = cuda.mapped_array(npts, dtype=np.float64)
        self.out = cuda.device_array(npts, dtype=np.float64, stream=stream)
        self.index = -1

    def read_in_at_time(self, index):
        """Load the two records that bracket the current time."""
        np.copyto(self.before, self.records[index])
        np.copyto(self.after, self.records[index + 1])
        self.index = index

    def update_interpolated_to_time(self, time):
        index = int(np.searchsorted(self.times, time, side="right")) - 1
        if index != self.index:
            self.read_in_at_time(index)
        t0, t1 = self.times[index], self.times[index + 1]
        alpha = (time - t0) / (t1 - t0)
        blocks = math.ceil(self.out.size / 256)
        interp_kernel[blocks, 256, self.stream](self.before, self.after, alpha, self.out)
        return self.out


class OceanSolver:
    def __init__(self, npts, boundary, stream):
        self.stream = stream
        self.boundary = boundary
        self.npts = npts
        self.field = cuda.to_device(np.zeros(npts), stream=stream)

    def advance(self, time, nsub):
        bdy = self.boundary.update_interpolated_to_time(time)
        apply_boundary[math.ceil(self.npts / 256), 256, self.stream](self.field, bdy, nsub)


def main(npts=1 << 20, nsteps=60):
    times = np.arange(0.0, 12.0)
    records = [np.full(npts, float(k)) for k in range(len(times))]
    stream = cuda.stream()
    boundary = NCTimeSeriesBoundary(records, times, npts, stream)
    solver = OceanSolver(npts, boundary, stream)
    for step in range(nsteps):
        solver.advance(step * 0.17, nsub=40)
    result = solver.field.copy_to_host(stream=stream)
    stream.synchronize()
    return result


if __name__ == "__main__":
    print(main()[:4])
