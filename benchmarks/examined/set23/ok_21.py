"""Conveyor reconstruction by sinogram chunks."""
from queue import Queue
from threading import Thread

import cupy as cp
import numpy as np


def pinned_array(shape, dtype):
    n = int(np.prod(shape))
    mem = cp.cuda.alloc_pinned_memory(n * np.dtype(dtype).itemsize)
    return np.frombuffer(mem, dtype, n).reshape(shape)


class WRThread:
    def __init__(self):
        self.thread = None

    def run(self, fun, args):
        self.thread = Thread(target=fun, args=args)
        self.thread.start()

    def is_alive(self):
        return self.thread is not None and self.thread.is_alive()

    def join(self):
        if self.thread is not None:
            self.thread.join()


def find_free_thread(threads):
    k = 0
    while True:
        if not threads[k].is_alive():
            return k
        k = (k + 1) % len(threads)


class GPURec:
    def __init__(self, nproj, ncz, n, nzchunk, nwriters=4):
        self.shape_data = (nproj, ncz, n)
        self.shape_rec = (ncz, n)
        self.nzchunk = nzchunk
        self.stream1 = cp.cuda.Stream(non_blocking=False)
        self.stream2 = cp.cuda.Stream(non_blocking=False)
        self.stream3 = cp.cuda.Stream(non_blocking=False)
        self.write_threads = [WRThread() for _ in range(nwriters)]
        self.data_queue = Queue(32)

    def recon_all(self, read_chunk, write_chunk):
        def reader():
            for k in range(self.nzchunk):
                self.data_queue.put(read_chunk(k))

        main_read = Thread(target=reader)
        main_read.start()

        item_pinned = pinned_array((2, *self.shape_data), np.float32)
        item_gpu = cp.zeros((2, *self.shape_data), dtype=cp.float32)
        rec_gpu = cp.zeros((2, *self.shape_rec), dtype=cp.float32)
        rec_pinned = pinned_array((len(self.write_threads), *self.shape_rec), np.float32)

        for k in range(self.nzchunk + 2):
            if 0 < k < self.nzchunk + 1:
                with self.stream2:
                    data = item_gpu[(k - 1) % 2]
                    data = -cp.log(cp.clip(data, 1e-6, None))
                    cp.sum(data, axis=0, out=rec_gpu[(k - 1) % 2])
            if k > 1:
                with self.stream3:
                    ithread = find_free_thread(self.write_threads)
                    rec_gpu[(k - 2) % 2].get(out=rec_pinned[ithread], blocking=False)
            if k < self.nzchunk:
                item_pinned[k % 2] = self.data_queue.get()
                with self.stream1:
                    item_gpu[k % 2].set(item_pinned[k % 2])
            self.stream3.synchronize()
            if k > 1:
                self.write_threads[ithread].run(write_chunk, (rec_pinned[ithread], k - 2))
            self.stream1.synchronize()
            self.stream2.synchronize()

        for t in self.write_threads:
            t.join()
        main_read.join()
