"""Resource aware pool: blocks that a stream gave back stay pending until
another stream that wants them has been ordered after the first one."""
import cupy as cp

ALIGN = 512


class Block:
    __slots__ = ("ptr", "size", "stream", "event")

    def __init__(self, ptr, size):
        self.ptr, self.size = ptr, size
        self.stream = None
        self.event = cp.cuda.Event(disable_timing=True)


class ResourceAwarePool:
    def __init__(self):
        self.pending = {}
        self.used = {}
        self.chunks = []

    def allocate(self, nbytes, device_id):
        size = max(ALIGN, (nbytes + ALIGN - 1) // ALIGN * ALIGN)
        stream = cp.cuda.get_current_stream()
        block = self._take(size, stream)
        if block is None:
            block = Block(cp.cuda.runtime.malloc(size), size)
            self.chunks.append(block.ptr)
        elif block.stream != stream:
            stream.wait_event(block.event)
        block.stream = stream
        self.used[block.ptr] = block
        return block.ptr

    def _take(self, size, stream):
        blocks = self.pending.get(size)
        if not blocks:
            return None
        for i, b in enumerate(blocks):
            if b.stream == stream:
                return blocks.pop(i)
        return blocks.pop(0)

    def deallocate(self, ptr, device_id):
        block = self.used.pop(ptr)
        block.event.record(block.stream)
        self.pending.setdefault(block.size, []).append(block)


_smooth = cp.ElementwiseKernel(
    "raw float32 x, int64 n", "float32 y",
    "y = 0.25f * x[(i + n - 1) % n] + 0.5f * x[i] + 0.25f * x[(i + 1) % n]", "smooth")


class Lanes:
    def __init__(self, n_lanes, n):
        self.n = n
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(n_lanes)]
        self.fields = []
        for k, s in enumerate(self.streams):
            with s:
                self.fields.append(cp.sin(cp.arange(n, dtype=cp.float32) * (k + 1) * 1e-3))

    def _filter(self, x, passes):
        for _ in range(passes):
            y = cp.empty_like(x)
            _smooth(x, self.n, y)
            x = y
        return x

    def step(self):
        for k, s in enumerate(self.streams):
            with s:
                self.fields[k] = self._filter(self.fields[k], 3)

    def energy(self):
        out = []
        for f, s in zip(self.fields, self.streams):
            with s:
                out.append(float((f * f).sum().get()))
        return out


def main():
    pool = ResourceAwarePool()
    cp.cuda.set_allocator(cp.cuda.PythonFunctionAllocator(pool.allocate, pool.deallocate).malloc)
    lanes = Lanes(4, 1 << 21)
    for _ in range(50):
        lanes.step()
    print(lanes.energy(), len(pool.chunks))


if __name__ == "__main__":
    main()
