"""Tensors bound to a stream, and the ground-truth preview made from them."""
import cupy as cp


class Tensor:
    def __init__(self, data, stream):
        self.data = data
        self.stream = stream

    @classmethod
    def empty(cls, shape, dtype, stream):
        with stream:
            return cls(cp.empty(shape, dtype), stream)

    @classmethod
    def zeros(cls, shape, dtype, stream):
        t = cls.empty(shape, dtype, stream)
        if cp.dtype(dtype).kind == "f":
            with stream:
                t.data.fill(0)
        else:
            cp.cuda.runtime.memset(t.data.data.ptr, 0, t.data.nbytes)
        return t

    def numpy(self):
        return self.data.get(stream=self.stream)


class PreviewRenderer:
    def __init__(self, height, width):
        self.shape = (height, width, 3)
        self.stream = cp.cuda.Stream(non_blocking=True)

    def to_bytes(self, image):
        with self.stream:
            return Tensor((cp.clip(image.data, 0, 1) * 255).astype(cp.uint8), self.stream)

    def flip_vertical(self, image):
        out = Tensor.zeros(self.shape, cp.uint8, self.stream)
        with self.stream:
            out.data[...] = image.data[::-1]
        return out

    def compare(self, gt, rendered):
        flipped = self.flip_vertical(self.to_bytes(gt))
        diff = Tensor.zeros((self.shape[0], self.shape[1]), cp.float32, self.stream)
        with self.stream:
            diff.data += cp.abs(gt.data - rendered.data).mean(axis=2)
        return flipped.numpy(), float(diff.data.max().get(stream=self.stream))


def main():
    view = PreviewRenderer(1080, 1920)
    rng = cp.random.RandomState(2)
    for camera in range(30):
        with view.stream:
            gt = Tensor(rng.random_sample(view.shape).astype(cp.float32), view.stream)
            rendered = Tensor(gt.data * 0.98, view.stream)
        picture, err = view.compare(gt, rendered)
        assert picture.any(), camera
        print(camera, picture.mean(), err)


if __name__ == "__main__":
    main()
