"""KV page offload/onload through a pinned double buffer (cuda-python)."""
import ctypes

import numpy as np
from cuda.bindings import runtime as cudart


def check(result):
    err, *values = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1])
    if not values:
        return None
    return values[0] if len(values) == 1 else values


class PinnedDoubleBuffer:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.ptr, self.view, self.event = [], [], []
        for _ in range(2):
            ptr = check(cudart.cudaMallocHost(nbytes))
            raw = (ctypes.c_uint8 * nbytes).from_address(int(ptr))
            self.ptr.append(ptr)
            self.view.append(np.frombuffer(raw, dtype=np.uint8))
            flags = cudart.cudaEventBlockingSync | cudart.cudaEventDisableTiming
            self.event.append(check(cudart.cudaEventCreateWithFlags(flags)))
        self.current = 0

    def acquire(self):
        idx = self.current
        self.current ^= 1
        check(cudart.cudaEventSynchronize(self.event[idx]))
        return idx

    def release(self, idx, stream):
        check(cudart.cudaEventRecord(self.event[idx], stream))

    def close(self):
        for ptr, event in zip(self.ptr, self.event):
            check(cudart.cudaEventSynchronize(event))
            check(cudart.cudaEventDestroy(event))
            check(cudart.cudaFreeHost(ptr))


class KVCacheManager:
    def __init__(self, num_pages, page_bytes, pages_per_chunk=32):
        self.page_bytes = page_bytes
        self.pages_per_chunk = pages_per_chunk
        self.pool = check(cudart.cudaMalloc(num_pages * page_bytes))
        check(cudart.cudaMemset(self.pool, 0, num_pages * page_bytes))
        check(cudart.cudaDeviceSynchronize())
        nonblocking = cudart.cudaStreamNonBlocking
        self.onload_stream = check(cudart.cudaStreamCreateWithFlags(nonblocking))
        self.offload_stream = check(cudart.cudaStreamCreateWithFlags(nonblocking))
        self.onload_buffer = PinnedDoubleBuffer(pages_per_chunk * page_bytes)
        self.offload_buffer = PinnedDoubleBuffer(pages_per_chunk * page_bytes)

    def _page(self, page):
        return int(self.pool) + page * self.page_bytes

    def onload(self, source, pages):
        h2d = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
        for start in range(0, len(pages), self.pages_per_chunk):
            chunk = pages[start:start + self.pages_per_chunk]
            idx = self.onload_buffer.acquire()
            for i, page in enumerate(chunk):
                dst = self.onload_buffer.view[idx][i * self.page_bytes:(i + 1) * self.page_bytes]
                np.copyto(dst, source[page])
            base = int(self.onload_buffer.ptr[idx])
            for i, page in enumerate(chunk):
                check(cudart.cudaMemcpyAsync(
                    self._page(page), base + i * self.page_bytes, self.page_bytes, h2d, self.onload_stream
                ))
            self.onload_buffer.release(idx, self.onload_stream)
        done = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        check(cudart.cudaEventRecord(done, self.onload_stream))
        return done

    def offload(self, pages, after):
        d2h = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        check(cudart.cudaStreamWaitEvent(self.offload_stream, after, 0))
        result, previous = {}, None
        for start in range(0, len(pages), self.pages_per_chunk):
            chunk = pages[start:start + self.pages_per_chunk]
            idx = self.offload_buffer.acquire()
            base = int(self.offload_buffer.ptr[idx])
            for i, page in enumerate(chunk):
                check(cudart.cudaMemcpyAsync(
                    base + i * self.page_bytes, self._page(page), self.page_bytes, d2h, self.offload_stream
                ))
            self.offload_buffer.release(idx, self.offload_stream)
            if previous is not None:
                self._drain(result, *previous)
            previous = (idx, chunk)
        if previous is not None:
            self._drain(result, *previous)
        return result

    def _drain(self, result, idx, chunk):
        check(cudart.cudaEventSynchronize(self.offload_buffer.event[idx]))
        for i, page in enumerate(chunk):
            view = self.offload_buffer.view[idx][i * self.page_bytes:(i + 1) * self.page_bytes]
            result[page] = view.copy()


def main(num_pages=512, page_bytes=1 << 16):
    manager = KVCacheManager(num_pages, page_bytes)
    rng = np.random.default_rng(0)
    source = {p: rng.integers(0, 255, page_bytes, dtype=np.uint8) for p in range(num_pages)}
    loaded = manager.onload(source, list(range(num_pages)))
    back = manager.offload(list(range(num_pages)), loaded)
    check(cudart.cudaEventDestroy(loaded))
    print(all(np.array_equal(source[p], back[p]) for p in source))
    manager.onload_buffer.close()
    manager.offload_buffer.close()


if __name__ == "__main__":
    main()
