"""Field updates through the CUDA runtime bindings, with streams made by cudaStreamCreate."""
import numpy as np
from cuda.bindings import runtime as rt

D2D = rt.cudaMemcpyKind.cudaMemcpyDeviceToDevice
D2H = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost


def ok(result):
    err, *rest = result
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(rt.cudaGetErrorString(err)[1])
    return rest[0] if rest else None


class Field:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.ptr = ok(rt.cudaMalloc(nbytes))

    def free(self):
        ok(rt.cudaFree(self.ptr))


class Lane:
    def __init__(self):
        self.stream = ok(rt.cudaStreamCreate())

    def set(self, field, byte, start=0, extent=None):
        extent = field.nbytes - start if extent is None else extent
        ok(rt.cudaMemsetAsync(field.ptr + start, byte, extent, self.stream))

    def destroy(self):
        ok(rt.cudaStreamDestroy(self.stream))


class Grid:
    def __init__(self, nbytes, lanes):
        self.current, self.previous = Field(nbytes), Field(nbytes)
        self.lanes = [Lane() for _ in range(lanes)]
        self.nbytes = nbytes
        self.host = np.empty(nbytes, dtype=np.uint8)

    def paint(self, value):
        part = self.nbytes // len(self.lanes)
        for i, lane in enumerate(self.lanes):
            lane.set(self.current, (value + i) & 0xFF, i * part, part)

    def commit(self):
        ok(rt.cudaMemcpy(self.previous.ptr, self.current.ptr, self.nbytes, D2D))

    def border(self, value):
        self.lanes[0].set(self.current, value, 0, 4096)
        self.lanes[-1].set(self.previous, value, self.nbytes - 4096, 4096)

    def read(self, field):
        ok(rt.cudaMemcpy(self.host.ctypes.data, field.ptr, self.nbytes, D2H))
        return self.host

    def close(self):
        for f in (self.current, self.previous):
            f.free()
        for lane in self.lanes:
            lane.destroy()


class Simulation:
    def __init__(self, grid, report_every):
        self.grid = grid
        self.every = report_every
        self.log = []

    def run(self, steps):
        for s in range(steps):
            self.grid.paint(s)
            self.grid.commit()
            self.grid.border(255)
            if s % self.every == self.every - 1:
                data = self.grid.read(self.grid.previous)
                self.log.append((s, int(data[0]), int(data[-1]), float(data[::65536].mean())))
        return self.log


def main():
    ok(rt.cudaSetDevice(0))
    grid = Grid(256 << 20, 4)
    for row in Simulation(grid, 4).run(16):
        print(row)
    grid.close()


if __name__ == "__main__":
    main()
