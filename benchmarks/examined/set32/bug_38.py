"""Log statistics: one thread parses blocks on the GPU, another one aggregates them."""
import queue
import threading
from dataclasses import dataclass

import cupy as cp
import cupyx
import numpy as np

RECORD = np.dtype([("host", "<u4"), ("status", "<u4"), ("bytes", "<u4"), ("stamp", "<u4")])


@dataclass
class Columns:
    host: cp.ndarray
    status: cp.ndarray
    bytes: cp.ndarray
    rows: int


def split_columns(raw):
    table = raw.view(cp.uint32).reshape(-1, 4)
    host = cp.ascontiguousarray(table[:, 0] & 0xFFFF)
    status = cp.ascontiguousarray(table[:, 1] // 100)
    size = table[:, 2].astype(cp.float64)
    return Columns(host, status, size, int(table.shape[0]))


class Parser(threading.Thread):
    def __init__(self, blocks, out, block_bytes):
        super().__init__(name="parser")
        self.blocks, self.out = blocks, out
        self.block_bytes = block_bytes

    def run(self):
        with cp.cuda.Stream.ptds as stream:
            staging = cupyx.empty_pinned(self.block_bytes, dtype=np.uint8)
            for block in self.blocks:
                stream.synchronize()
                n = len(block) - len(block) % RECORD.itemsize
                staging[:n] = np.frombuffer(block, dtype=np.uint8, count=n)
                raw = cp.empty(n, dtype=cp.uint8)
                raw.set(staging[:n], stream=stream)
                self.out.put(split_columns(raw))
            self.out.put(None)


class Aggregator(threading.Thread):
    def __init__(self, source, hosts=1 << 16, classes=6):
        super().__init__(name="aggregator")
        self.source = source
        self.hosts, self.classes = hosts, classes
        self.result = None

    def run(self):
        with cp.cuda.Stream.ptds as stream:
            traffic = cp.zeros(self.hosts, dtype=cp.float64)
            codes = cp.zeros((self.hosts, self.classes), dtype=cp.uint32)
            kept = []
            while True:
                cols = self.source.get()
                if cols is None:
                    break
                cupyx.scatter_add(traffic, cols.host, cols.bytes)
                cupyx.scatter_add(codes, (cols.host, cp.minimum(cols.status, self.classes - 1)), 1)
                kept.append(cols)
            busiest = cp.argsort(traffic)[::-1][:100]
            stream.synchronize()
            self.result = (cp.asnumpy(busiest), cp.asnumpy(codes[busiest]))


def summarize(blocks, block_bytes=64 << 20):
    handover = queue.Queue(maxsize=4)
    parser = Parser(blocks, handover, block_bytes)
    aggregator = Aggregator(handover)
    parser.start()
    aggregator.start()
    parser.join()
    aggregator.join()
    return aggregator.result
