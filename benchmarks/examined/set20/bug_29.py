"""Overlap search with a preallocated device arena."""
import cupy as cp
import numpy as np

ALIGN = 512


class Block:
    def __init__(self, begin, size, stream):
        self.begin = begin
        self.size = size
        self.associated_stream = stream


class DevicePreallocatedAllocator:
    """First-fit suballocator over one big device buffer."""

    def __init__(self, capacity):
        self.arena = cp.zeros(capacity, dtype=cp.uint8)
        cp.cuda.Stream.null.synchronize()
        self.free_blocks = [(0, capacity)]

    def allocate(self, size, stream):
        size = (size + ALIGN - 1) // ALIGN * ALIGN
        for k, (begin, avail) in enumerate(self.free_blocks):
            if avail >= size:
                if avail == size:
                    self.free_blocks.pop(k)
                else:
                    self.free_blocks[k] = (begin + size, avail - size)
                return Block(begin, size, stream)
        raise MemoryError("arena exhausted")

    def deallocate(self, block):
        block.associated_stream.synchronize()
        self.free_blocks.append((block.begin, block.size))
        self.free_blocks.sort()
        merged = [self.free_blocks[0]]
        for begin, size in self.free_blocks[1:]:
            last_begin, last_size = merged[-1]
            if last_begin + last_size == begin:
                merged[-1] = (last_begin, last_size + size)
            else:
                merged.append((begin, size))
        self.free_blocks = merged

    def view(self, block, count, dtype):
        return cp.ndarray((count,), dtype=dtype, memptr=self.arena.data + block.begin)


class Index:
    def __init__(self, allocator, reads, k, stream):
        self.allocator = allocator
        n = reads.size - k + 1
        self.block = allocator.allocate(n * 8, stream)
        self.representations = allocator.view(self.block, n, cp.uint64)
        self.ready = cp.cuda.Event(disable_timing=True)
        with stream:
            self.representations.fill(0)
            for i in range(k):
                self.representations *= np.uint64(4)
                self.representations += reads[i:i + n]
        self.ready.record(stream)

    def free(self):
        self.allocator.deallocate(self.block)


class Matcher:
    def __init__(self, target):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.stream.wait_event(target.ready)
        with self.stream:
            self.sorted_target = cp.sort(target.representations)

    def count_anchors(self, query):
        self.stream.wait_event(query.ready)
        with self.stream:
            lo = cp.searchsorted(self.sorted_target, query.representations, side="left")
            hi = cp.searchsorted(self.sorted_target, query.representations, side="right")
            return (hi - lo).sum()


def main(nquery=16, nbases=1 << 21, k=15):
    rng = np.random.default_rng(0)
    reads = [cp.asarray(rng.integers(0, 4, nbases, dtype=np.uint64)) for _ in range(nquery)]
    cp.cuda.Stream.null.synchronize()
    index_stream = cp.cuda.Stream(non_blocking=True)
    allocator = DevicePreallocatedAllocator(64 << 20)
    target = Index(allocator, reads[0], k, index_stream)
    matcher = Matcher(target)
    anchors = []
    for q in reads:
        query = Index(allocator, q, k, index_stream)
        anchors.append(matcher.count_anchors(query))
        query.free()
    matcher.stream.synchronize()
    target.free()
    return [int(a) for a in anchors]


if __name__ == "__main__":
    print(main())
