import numpy as np
import pycuda.autoinit
import pycuda.driver as drv

from buffers import BufferSet
from network import Chain, Dense
from session import Session

N, H, M = 4096, 8192, 1024


def main():
    rng = np.random.default_rng(0)
    bufs = BufferSet()
    bufs.add("x", N)
    bufs.add("w1", (N, H))
    bufs.add("h", H)
    bufs.add("w2", (H, M))
    bufs.add("y", M)
    bufs["w1"].host[:] = rng.standard_normal((N, H), dtype=np.float32) / N ** 0.5
    bufs["w2"].host[:] = rng.standard_normal((H, M), dtype=np.float32) / H ** 0.5
    for name in ("w1", "w2"):
        drv.memcpy_htod(bufs[name].dev, bufs[name].host)
    net = Chain(Dense(bufs, "x", "w1", "h", N, H), Dense(bufs, "h", "w2", "y", H, M))
    session = Session(bufs, ["x"], ["y"])
    best = []
    for _ in range(100):
        bufs["x"].host[:] = rng.standard_normal(N, dtype=np.float32)
        with session.turn() as stream:
            net(stream)
        best.append(int(bufs["y"].host.argmax()))
    print(best[:10], session.turns, session.traffic)
    bufs.free()


if __name__ == "__main__":
    main()
