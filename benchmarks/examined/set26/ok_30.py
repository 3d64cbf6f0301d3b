"""Stream-ordered block pool with explicit stream retirement."""
import cupy as cp

_axpy = cp.RawKernel(r'''
extern "C" __global__ void axpy(float* y, int n, float a, int iters) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) { float v = y[i];
        for (int k = 0; k < iters; ++k) v = a * v + 1.0f;
        y[i] = v; }
}''', 'axpy')


class BlockList:
    def __init__(self):
        self.event = cp.cuda.Event(disable_timing=True)
        self.blocks = []

    def take(self, nbytes):
        for i, mem in enumerate(self.blocks):
            if mem.size == nbytes:
                return self.blocks.pop(i)
        return None


class Pool:
    def __init__(self):
        self._by_stream = {}
        self._idle = BlockList()

    def _list(self, stream):
        return self._by_stream.setdefault(stream.ptr, BlockList())

    def allocate(self, nbytes, stream):
        mem = self._list(stream).take(nbytes) or self._idle.take(nbytes)
        if mem is None:
            mem = self._steal(nbytes, stream)
        return mem if mem is not None else cp.cuda.Memory(nbytes)

    def _steal(self, nbytes, stream):
        own = self._list(stream)
        for other in list(self._by_stream.values()):
            if other is own or not other.blocks:
                continue
            stream.wait_event(other.event)
            own.blocks += other.blocks
            other.blocks = []
            own.event.record(stream)
            mem = own.take(nbytes)
            if mem is not None:
                return mem
        return None

    def deallocate(self, mem, stream):
        lst = self._list(stream)
        lst.blocks.append(mem)
        lst.event.record(stream)

    def retire(self, stream):
        lst = self._by_stream.pop(stream.ptr, None)
        stream.synchronize()
        if lst is not None:
            self._idle.blocks += lst.blocks


def task(pool, stream, n, value):
    mem = pool.allocate(4 * n, stream)
    y = cp.ndarray((n,), cp.float32, memptr=cp.cuda.MemoryPointer(mem, 0))
    y.data.memset_async(0, y.nbytes, stream)
    _axpy(((n + 255) // 256,), (256,), (y, n, cp.float32(value), 5000),
          stream=stream)
    host = y.get(stream=stream)
    pool.deallocate(mem, stream)
    return float(host[0])


def main(n=1 << 20):
    pool = Pool()
    total = 0.0
    for epoch in range(4):
        streams = [cp.cuda.Stream(non_blocking=True) for _ in range(3)]
        for i in range(9):
            total += task(pool, streams[i % 3], n, 0.5)
        for s in streams:
            pool.retire(s)
        del streams
    print(total)


if __name__ == "__main__":
    main()
