"""Warp wave simulation: two fields advanced on two streams, sampled with numpy()."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def wave(
    prev: wp.array2d(dtype=float),
    cur: wp.array2d(dtype=float),
    nxt: wp.array2d(dtype=float),
    k: float,
):
    i, j = wp.tid()
    ni = cur.shape[0]
    nj = cur.shape[1]
    if i == 0 or j == 0 or i == ni - 1 or j == nj - 1:
        nxt[i, j] = 0.0
        return
    lap = cur[i - 1, j] + cur[i + 1, j] + cur[i, j - 1] + cur[i, j + 1] - 4.0 * cur[i, j]
    nxt[i, j] = 2.0 * cur[i, j] - prev[i, j] + k * lap


@wp.kernel
def energy(cur: wp.array2d(dtype=float), prev: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i, j = wp.tid()
    d = cur[i, j] - prev[i, j]
    wp.atomic_add(out, 0, d * d)


class WaveField:
    def __init__(self, n, seed, device="cuda:0"):
        rng = np.random.default_rng(seed)
        self.shape = (n, n)
        self.device = device
        self.stream = wp.Stream(device)
        bump = np.zeros((n, n), dtype=np.float32)
        x, y = rng.integers(n // 4, 3 * n // 4, 2)
        bump[x - 4: x + 4, y - 4: y + 4] = 1.0
        self.levels = [wp.array(bump, dtype=float, device=device) for _ in range(3)]
        self.total = wp.zeros(1, dtype=float, device=device)
        wp.synchronize_device(device)

    def advance(self, steps, k=0.2):
        for _ in range(steps):
            prev, cur, nxt = self.levels
            wp.launch(wave, dim=self.shape, inputs=[prev, cur, nxt, k], stream=self.stream)
            self.levels = [cur, nxt, prev]

    def measure(self):
        with wp.ScopedStream(self.stream, sync_enter=False):
            self.total.zero_()
            wp.launch(energy, dim=self.shape, inputs=[self.levels[1], self.levels[0], self.total])

    def read(self):
        return float(self.total.numpy()[0]), self.levels[1].numpy()


class Recorder:
    def __init__(self, fields):
        self.fields = fields
        self.rows = []

    def frame(self, steps):
        for f in self.fields:
            f.advance(steps)
            f.measure()
        values = [f.read() for f in self.fields]
        self.rows.append([(e, float(np.abs(img).max())) for e, img in values])


def main():
    fields = [WaveField(1024, s) for s in (1, 2)]
    rec = Recorder(fields)
    for _ in range(30):
        rec.frame(20)
    print(rec.rows[-1])


if __name__ == "__main__":
    main()
