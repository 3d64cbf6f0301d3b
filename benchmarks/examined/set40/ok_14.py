"""Page compaction on the CUDA runtime bindings, with streams made by cudaStreamCreate."""
import ctypes

import numpy as np
from cuda.bindings import runtime as rt

KIND = rt.cudaMemcpyKind


def call(fn, *args):
    err, *out = fn(*args)
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(f"{fn.__name__}: {rt.cudaGetErrorString(err)[1].decode()}")
    return out[0] if out else None


class Pinned:
    def __init__(self, shape, dtype):
        n = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self.ptr = call(rt.cudaHostAlloc, n, rt.cudaHostAllocDefault)
        self.np = np.frombuffer((ctypes.c_byte * n).from_address(self.ptr), dtype=dtype).reshape(shape)

    def release(self):
        self.np = None
        call(rt.cudaFreeHost, self.ptr)


class PagedStore:
    """Fixed pages in one arena; a compact run is what leaves for the client."""

    def __init__(self, pages, page_elems):
        self.page_bytes = page_elems * 4
        self.pages, self.page_elems = pages, page_elems
        self.arena = call(rt.cudaMalloc, pages * self.page_bytes)
        self.compact = call(rt.cudaMalloc, pages * self.page_bytes)
        self.ingest = call(rt.cudaStreamCreate)
        self.egress = call(rt.cudaStreamCreate)
        self.inbox = Pinned((pages, page_elems), np.float32)
        self.outbox = Pinned((pages, page_elems), np.float32)

    def page(self, base, i):
        return base + i * self.page_bytes

    def write(self, rows):
        self.inbox.np[: len(rows)] = rows
        for i in range(len(rows)):
            src = self.inbox.ptr + i * self.page_bytes
            call(rt.cudaMemcpyAsync, self.page(self.arena, i), src, self.page_bytes,
                 KIND.cudaMemcpyHostToDevice, self.ingest)

    def gather(self, order):
        for slot, i in enumerate(order):
            call(rt.cudaMemcpy, self.page(self.compact, slot), self.page(self.arena, i),
                 self.page_bytes, KIND.cudaMemcpyDeviceToDevice)

    def pad(self, first):
        left = self.pages - first
        if left:
            call(rt.cudaMemset, self.page(self.compact, first), 0, left * self.page_bytes)

    def read(self):
        call(rt.cudaMemcpyAsync, self.outbox.ptr, self.compact, self.pages * self.page_bytes,
             KIND.cudaMemcpyDeviceToHost, self.egress)
        call(rt.cudaStreamSynchronize, self.egress)
        return self.outbox.np.copy()

    def close(self):
        call(rt.cudaDeviceSynchronize)
        for s in (self.ingest, self.egress):
            call(rt.cudaStreamDestroy, s)
        for p in (self.arena, self.compact):
            call(rt.cudaFree, p)
        self.inbox.release()
        self.outbox.release()


def main(rounds=100, pages=32, page_elems=1 << 18):
    call(rt.cudaSetDevice, 0)
    store = PagedStore(pages, page_elems)
    rng = np.random.default_rng(1)
    bad = 0
    for r in range(rounds):
        rows = np.arange(pages, dtype=np.float32)[:, None] + np.float32(r * pages)
        store.write(np.broadcast_to(rows, (pages, page_elems)))
        keep = rng.permutation(pages)[: pages - r % 5]
        store.gather(keep)
        store.pad(len(keep))
        got = store.read()
        bad += int(not (got[: len(keep), 0] == rows[keep, 0]).all())
    store.close()
    print("bad rounds", bad)


if __name__ == "__main__":
    main()
