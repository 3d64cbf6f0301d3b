"""CuPy images labelled by a Numba kernel; the array interface carries the stream."""
import cupy as cp
from numba import cuda


@cuda.jit
def threshold(img, level, mask):
    i, j = cuda.grid(2)
    if i < img.shape[0] and j < img.shape[1]:
        mask[i, j] = 1 if img[i, j] > level else 0


class Segmenter:
    def __init__(self, shape):
        self.shape = shape
        self.cp_stream = cp.cuda.Stream(non_blocking=True)
        self.nb_stream = cuda.stream()
        self.grid = tuple((s + 15) // 16 for s in shape)

    def prepare(self, image):
        background = image.mean(axis=0, keepdims=True)
        return cp.ascontiguousarray(image - background)

    def mask(self, image, level):
        with self.cp_stream:
            flat = self.prepare(image)
            out = cp.empty(self.shape, cp.uint8)
            src = cuda.as_cuda_array(flat)
            dst = cuda.as_cuda_array(out)
        threshold[self.grid, (16, 16), self.nb_stream](src, level, dst)
        self.nb_stream.synchronize()
        return out

    def areas(self, images, levels):
        totals = []
        for image, level in zip(images, levels):
            out = self.mask(image, level)
            with self.cp_stream:
                totals.append(int(out.sum(dtype=cp.int64)))
        return totals


def main():
    seg = Segmenter((480, 640))
    with seg.cp_stream:
        images = [cp.random.rand(480, 640) for _ in range(4)]
    return seg.areas(images, [0.0, 0.1, 0.2, 0.3])


if __name__ == "__main__":
    print(main())
