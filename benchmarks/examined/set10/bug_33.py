import array

import cupy
import numpy
from mpi4py import MPI

typemap = dict(h=MPI.SHORT, i=MPI.INT, l=MPI.LONG, q=MPI.LONG_LONG, f=MPI.FLOAT, d=MPI.DOUBLE)


class BaseArray:
    TypeMap = typemap

    def __init__(self, typecode):
        self.typecode = typecode
        self.mpidtype = self.TypeMap[typecode]

    def as_mpi(self):
        return (self.as_raw(), self.mpidtype)

    def as_raw(self):
        return self.array


class ArrayArray(BaseArray):
    def __init__(self, typecode, values):
        super().__init__(typecode)
        self.array = array.array(typecode, values)

    def host(self):
        return numpy.asarray(self.array)


class NumpyArray(BaseArray):
    def __init__(self, typecode, values):
        super().__init__(typecode)
        self.array = numpy.asarray(values, dtype=typecode)

    def host(self):
        return self.array


class CupyArray(BaseArray):
    def __init__(self, typecode, values):
        super().__init__(typecode)
        if isinstance(values, cupy.ndarray):
            self.array = values.astype(typecode)
        else:
            self.array = cupy.zeros(len(values), dtype=typecode)
            self.array += cupy.asarray(values, dtype=typecode)

    def as_raw(self):
        return self.array

    def host(self):
        return cupy.asnumpy(self.array)


def subarrays():
    yield ArrayArray
    yield NumpyArray
    yield CupyArray


class TestCCOBuf:
    def __init__(self, comm=MPI.COMM_WORLD):
        self.comm = comm
        self.rank = comm.Get_rank()
        self.size = comm.Get_size()

    def check_allreduce(self, cls, typecode, n):
        sbuf = cls(typecode, range(self.rank, self.rank + n))
        rbuf = cls(typecode, [0] * n)
        self.comm.Allreduce(sbuf.as_mpi(), rbuf.as_mpi(), op=MPI.SUM)
        expected = sum(numpy.arange(r, r + n) for r in range(self.size))
        numpy.testing.assert_allclose(rbuf.host(), expected)

    def check_allgather(self, cls, typecode, n):
        sbuf = cls(typecode, [self.rank] * n)
        rbuf = cls(typecode, [-1] * (n * self.size))
        self.comm.Allgather(sbuf.as_mpi(), rbuf.as_mpi())
        expected = numpy.repeat(numpy.arange(self.size), n)
        numpy.testing.assert_allclose(rbuf.host(), expected)

    def run(self):
        for cls in subarrays():
            for typecode in "ifd":
                for n in (1, 1 << 10, 1 << 20):
                    self.check_allreduce(cls, typecode, n)
                    self.check_allgather(cls, typecode, n)


if __name__ == "__main__":
    cupy.cuda.Device(MPI.COMM_WORLD.Get_rank() % cupy.cuda.runtime.getDeviceCount()).use()
    with cupy.cuda.Stream(non_blocking=True):
        TestCCOBuf().run()
