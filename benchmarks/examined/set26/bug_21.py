"""A small stream-ordered sub-allocator for CuPy arrays."""
import cupy as cp

_relax = cp.RawKernel(r'''
extern "C" __global__ void relax(float* x, int n, int iters) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) { float v = x[i];
        for (int k = 0; k < iters; ++k) v = v * 0.999f + 0.001f;
        x[i] = v; }
}''', 'relax')


class FreeList:
    def __init__(self, stream):
        self.stream = stream
        self.event = cp.cuda.Event(disable_timing=True)
        self.blocks = []

    def take(self, nbytes):
        for i, mem in enumerate(self.blocks):
            if mem.size >= nbytes:
                return self.blocks.pop(i)
        return None


class StreamOrderedPool:
    """Blocks go to the list of the stream they were released on."""

    def __init__(self):
        self._lists = {}

    def _list_of(self, stream):
        if stream.ptr not in self._lists:
            self._lists[stream.ptr] = FreeList(stream)
        return self._lists[stream.ptr]

    def allocate(self, nbytes, stream):
        own = self._list_of(stream)
        mem = own.take(nbytes)
        if mem is None:
            mem = self._merge_lists(own, nbytes)
        if mem is None:
            mem = cp.cuda.Memory(nbytes)
        return mem

    def _merge_lists(self, own, nbytes):
        for other in list(self._lists.values()):
            if other is own or not other.blocks:
                continue
            own.stream.wait_event(other.event)
            own.blocks.extend(other.blocks)
            other.blocks.clear()
            mem = own.take(nbytes)
            if mem is not None:
                return mem
        return None

    def deallocate(self, mem, stream):
        lst = self._list_of(stream)
        lst.blocks.append(mem)
        lst.event.record(stream)


def as_array(mem, n):
    return cp.ndarray((n,), cp.float32, memptr=cp.cuda.MemoryPointer(mem, 0))


def main(n=1 << 22):
    pool = StreamOrderedPool()
    a = cp.cuda.Stream(non_blocking=True)
    b = cp.cuda.Stream(non_blocking=True)
    c = cp.cuda.Stream(non_blocking=True)
    grid = ((n + 255) // 256,)

    first, second = pool.allocate(4 * n, a), pool.allocate(4 * n, a)
    for mem in (first, second):
        arr = as_array(mem, n)
        arr.data.memset_async(0, arr.nbytes, a)
        _relax(grid, (256,), (arr, n, 20000), stream=a)
    pool.deallocate(first, a)
    pool.deallocate(second, a)

    coarse = pool.allocate(4 * n, b)
    arr = as_array(coarse, n)
    _relax(grid, (256,), (arr, n, 10), stream=b)

    fine = pool.allocate(4 * n, c)
    arr = as_array(fine, n)
    arr.data.memset_async(0, arr.nbytes, c)
    _relax(grid, (256,), (arr, n, 10), stream=c)
    c.synchronize()
    print(float(arr.sum()))


if __name__ == "__main__":
    main()
