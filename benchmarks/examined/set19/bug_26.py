"""Shuffle receiver: UCX endpoints deliver partitions into RMM buffers."""
import asyncio

import cupy as cp
import numpy as np
import rmm
import ucxx
from rmm.pylibrmm.stream import Stream

_FOLD = cp.RawKernel(r'''
extern "C" __global__
void fold(const float* part, double* sums, double* squares, long n, int groups) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n) {
        int g = i % groups;
        atomicAdd(&sums[g], (double)part[i]);
        atomicAdd(&squares[g], (double)part[i] * part[i]);
    }
}
''', "fold")


class GroupMoments:
    """Running first and second moments per group."""

    def __init__(self, groups, stream):
        self.groups = groups
        self.stream = stream
        with stream:
            self.sums = cp.zeros(groups, cp.float64)
            self.squares = cp.zeros(groups, cp.float64)

    def fold(self, view):
        n = view.size
        with self.stream:
            _FOLD(((n + 255) // 256,), (256,),
                  (view, self.sums, self.squares, np.int64(n), np.int32(self.groups)))

    def result(self):
        with self.stream:
            return self.sums.get(), self.squares.get()


class PartitionReceiver:
    def __init__(self, endpoint, groups):
        self.endpoint = endpoint
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.rmm_stream = Stream(self.stream)
        self.moments = GroupMoments(groups, self.stream)

    async def _recv_header(self):
        header = np.empty(1, np.int64)
        await self.endpoint.recv(header)
        return int(header[0])

    async def _recv_partition(self, nbytes):
        buf = rmm.DeviceBuffer(size=nbytes, stream=self.rmm_stream)
        await self.endpoint.recv(buf)
        return buf

    async def run(self):
        while True:
            nbytes = await self._recv_header()
            if nbytes == 0:
                break
            buf = await self._recv_partition(nbytes)
            view = cp.ndarray(
                nbytes // 4, cp.float32,
                cp.cuda.MemoryPointer(cp.cuda.UnownedMemory(buf.ptr, nbytes, buf), 0))
            self.moments.fold(view)
            del view, buf
        return self.moments.result()


async def main(port=13337, groups=64):
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
    finished = asyncio.get_running_loop().create_future()

    async def on_connect(endpoint):
        receiver = PartitionReceiver(endpoint, groups)
        finished.set_result(await receiver.run())
        await endpoint.close()

    listener = ucxx.create_listener(on_connect, port)
    sums, squares = await finished
    print(sums.mean(), squares.mean())
    listener.close()


if __name__ == "__main__":
    asyncio.run(main())
