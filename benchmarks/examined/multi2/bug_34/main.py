import numpy as np
from cuda import cudart

from cu import Arena, Lane, ok
from mosaic import Mosaic

TILE = 8 << 20


def main(values=tuple(range(1, 33))):
    ok(cudart.cudaSetDevice(0))
    memory = Lane()
    painters = [Lane() for _ in range(2)]
    picture = ok(cudart.cudaMalloc(TILE * len(values)))
    mosaic = Mosaic(Arena(memory), painters, picture, TILE)
    for _ in range(4):
        mosaic.lay(values)
    image = mosaic.read(np.empty(TILE * len(values), dtype=np.uint8))
    memory.drain()
    for i, v in enumerate(values):
        block = image[i * TILE:(i + 1) * TILE]
        print(v, int(block.min()), int(block.max()))
    ok(cudart.cudaFree(picture))


if __name__ == "__main__":
    main()
