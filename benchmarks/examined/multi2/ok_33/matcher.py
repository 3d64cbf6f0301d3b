import numpy as np
import pycuda.driver as drv

from context import open_stream, workspace


class Matcher:
    """Distances of one query to all references."""

    def __init__(self, distance, references, size):
        self.distance = distance
        self.references = references
        self.size = size
        self.stream = open_stream()
        self.part = workspace(distance.blocks)
        self.query = drv.mem_alloc(size * 4)
        self.page = drv.pagelocked_empty(size, np.float32)
        self.answer = drv.pagelocked_empty(len(references), np.float32)
        self.row = drv.mem_alloc(self.answer.nbytes)

    def ask(self, query):
        self.page[:] = query
        drv.memcpy_htod_async(self.query, self.page, self.stream)
        for i, ref in enumerate(self.references):
            out = np.intp(int(self.row) + 4 * i)
            self.distance(self.query, ref, self.part, out, self.size, self.stream)
        drv.memcpy_dtoh_async(self.answer, self.row, self.stream)

    def tell(self):
        self.stream.synchronize()
        best = int(self.answer.argmin())
        return best, float(self.answer[best])
