import numpy as np

from geometry import kmeans, spread
from pipe import Uploader, upload_all


def tiles(n, rows=4096, dim=16, seed=5):
    rng = np.random.default_rng(seed)
    buf = np.empty((rows, dim), dtype=np.float32)
    for _ in range(n):
        rng.standard_normal(out=buf, dtype=np.float32)
        buf += rng.integers(-3, 4, size=(1, dim)).astype(np.float32)
        yield buf


def main():
    rng = np.random.default_rng(0)
    first, nbytes = upload_all({
        "centers": rng.standard_normal((24, 16), dtype=np.float32),
        "scale": np.linspace(0.5, 1.5, 16, dtype=np.float32),
    })
    centers = first["centers"]
    up = Uploader()
    for i, tile in enumerate(tiles(20)):
        points = up(tile)
        points *= first["scale"]
        centers, inertia = kmeans(points, centers)
        print(i, inertia.item(), spread(centers).item())
    print("uploaded", up.bytes + nbytes)


if __name__ == "__main__":
    main()
