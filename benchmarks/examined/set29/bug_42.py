"""Block-structured mesh data that is shared with CuPy through the CUDA array
interface; the mesh library runs its own kernels on its own GPU streams."""
import cupy as cp


class GpuStreams:
    """Streams of the mesh library; boxes are distributed over them."""

    def __init__(self, n):
        self._streams = [cp.cuda.Stream(non_blocking=True) for _ in range(n)]

    def for_box(self, index):
        return self._streams[index % len(self._streams)]


class Array4:
    def __init__(self, mem, shape):
        self._mem = mem
        self._shape = shape

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self._shape,
            "typestr": "<f8",
            "data": (self._mem.data.ptr, False),
            "version": 3,
            "strides": None,
        }


class MultiFab:
    def __init__(self, boxes, shape, streams):
        self.streams = streams
        self.shape = shape
        self._fabs = [cp.empty(shape) for _ in range(boxes)]

    def __len__(self):
        return len(self._fabs)

    def array(self, i):
        return Array4(self._fabs[i], self.shape)

    def set_val(self, value):
        for i, fab in enumerate(self._fabs):
            with self.streams.for_box(i):
                fab.fill(value)

    def plus(self, value):
        for i, fab in enumerate(self._fabs):
            with self.streams.for_box(i):
                fab += value


def laplacian_sum(mfab):
    """User analysis written with CuPy on the arrays of all boxes."""
    total = 0.0
    for i in range(len(mfab)):
        marr = cp.asarray(mfab.array(i))
        lap = (marr[2:, 1:-1, 1:-1] + marr[:-2, 1:-1, 1:-1] + marr[1:-1, 2:, 1:-1]
               + marr[1:-1, :-2, 1:-1] - 4.0 * marr[1:-1, 1:-1, 1:-1])
        total += float(cp.abs(lap).sum() + marr.mean())
    return total


def main():
    mfab = MultiFab(8, (192, 192, 192), GpuStreams(4))
    cp.cuda.Device().synchronize()
    analysis = cp.cuda.Stream(non_blocking=True)
    mfab.set_val(1.0)
    for step in range(10):
        mfab.plus(0.5)
        with analysis:
            print(step, laplacian_sum(mfab))


if __name__ == "__main__":
    main()
