"""Stream slices of a volume from disk with KvikIO and histogram them on the GPU."""
import os

import cupy as cp
import kvikio


class SliceReader:
    def __init__(self, path, shape):
        self.file = kvikio.CuFile(path, "r")
        self.nbytes = shape[0] * shape[1] * 4
        self.total = os.path.getsize(path) // self.nbytes
        self.slots = [cp.empty(shape, cp.float32) for _ in range(2)]
        cp.cuda.Device().synchronize()

    def request(self, k):
        slot = self.slots[k % 2]
        return slot, self.file.pread(slot, size=self.nbytes, file_offset=k * self.nbytes)

    def slices(self):
        current = self.request(0)
        for k in range(self.total):
            slot, future = current
            if k + 1 < self.total:
                current = self.request(k + 1)
            yield slot
            future.get()


def histogram(reader, bins=256, lo=-1000.0, hi=3000.0):
    counts = cp.zeros(bins, cp.int64)
    edges = cp.linspace(lo, hi, bins + 1)
    for image in reader.slices():
        part, _ = cp.histogram(image, bins=edges)
        counts += part
        cp.cuda.Stream.null.synchronize()
    return cp.asnumpy(counts)


def main():
    reader = SliceReader("/data/ct/volume.raw", (2048, 2048))
    for value in histogram(reader):
        print(int(value))
    reader.file.close()


if __name__ == "__main__":
    main()
