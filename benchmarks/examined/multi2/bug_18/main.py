import numpy as np
from numba import cuda

from stages import make


class Pipeline:
    def __init__(self, names, shape):
        self.stages = [make(n) for n in names]
        self.planes = [cuda.device_array(shape, np.float32) for _ in range(len(names) + 1)]
        cuda.synchronize()

    def __call__(self, image):
        first, last = self.stages[0], self.stages[-1]
        self.planes[0].copy_to_device(image, stream=first.stream)
        plane = self.planes[0]
        for stage, target in zip(self.stages, self.planes[1:]):
            plane = stage.run(plane, target)
        out = plane.copy_to_host(stream=last.stream)
        last.stream.synchronize()
        return out


def main():
    rng = np.random.default_rng(0)
    shape = (4096, 4096)
    pipe = Pipeline(["blur", "gradient"], shape)
    for k in range(20):
        edges = pipe(rng.random(shape, dtype=np.float32))
        print(k, edges.mean(), edges.max())


if __name__ == "__main__":
    main()
