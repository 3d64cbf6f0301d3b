import threading
from collections import defaultdict

import cupy as cp


class BlockDescriptor:
    def __init__(self, memory, bin_size, stream):
        self.memory = memory
        self.bin_size = bin_size
        self.stream = stream
        self.ready_event = cp.cuda.Event(disable_timing=True)

    @property
    def ptr(self):
        return self.memory.ptr


class CachingDeviceAllocator:
    """Blocks may move between streams once their last work is done."""

    def __init__(self, bin_growth=8, max_cached_bytes=1 << 30):
        self.bin_growth = bin_growth
        self.max_cached_bytes = max_cached_bytes
        self.cached_bytes = 0
        self.mutex = threading.Lock()
        self.cached_blocks = defaultdict(list)
        self.live_blocks = {}

    def _bin(self, nbytes):
        size = 512
        while size < nbytes:
            size *= self.bin_growth
        return size

    def device_allocate(self, nbytes, stream):
        bin_size = self._bin(nbytes)
        block = None
        with self.mutex:
            for candidate in self.cached_blocks[bin_size]:
                if candidate.stream.ptr == stream.ptr or candidate.ready_event.done:
                    block = candidate
                    break
            if block is not None:
                self.cached_blocks[bin_size].remove(block)
                self.cached_bytes -= bin_size
                block.stream = stream
        if block is None:
            block = BlockDescriptor(cp.cuda.alloc(bin_size), bin_size, stream)
        with self.mutex:
            self.live_blocks[block.ptr] = block
        return block

    def device_free(self, ptr):
        recached = False
        with self.mutex:
            block = self.live_blocks.pop(ptr)
            if self.cached_bytes + block.bin_size <= self.max_cached_bytes:
                self.cached_blocks[block.bin_size].append(block)
                self.cached_bytes += block.bin_size
                recached = True
        if recached:
            block.ready_event.record(block.stream)
        else:
            block.stream.synchronize()


def reduce_tracks(allocator, hits, stream):
    block = allocator.device_allocate(hits.nbytes, stream)
    with stream:
        scratch = cp.ndarray(hits.shape, hits.dtype, memptr=block.memory)
        cp.multiply(hits, hits, out=scratch)
        chi2 = scratch.sum(axis=0)
    allocator.device_free(block.ptr)
    return chi2


def process_events(allocator, events, workers=4):
    def work(chunk, out):
        stream = cp.cuda.Stream(non_blocking=True)
        for hits in chunk:
            out.append(reduce_tracks(allocator, hits, stream))
        stream.synchronize()

    outs = [[] for _ in range(workers)]
    threads = [
        threading.Thread(target=work, args=(events[i::workers], outs[i])) for i in range(workers)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return outs
