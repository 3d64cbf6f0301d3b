"""Two-stage particle push: field gather on one Numba stream, push on another."""
import numpy as np
from numba import cuda


@cuda.jit
def gather(pos, field, acc):
    i = cuda.grid(1)
    if i < pos.size:
        cell = int(pos[i]) % field.size
        acc[i] = field[cell]


@cuda.jit
def push(pos, vel, acc, dt):
    i = cuda.grid(1)
    if i < pos.size:
        vel[i] += acc[i] * dt
        pos[i] += vel[i] * dt


class Stage:
    """A stream together with the event that marks its latest work."""

    def __init__(self):
        self.stream = cuda.stream()
        self.tail = cuda.event(timing=False)

    def after(self, other):
        other.tail.wait(stream=self.stream)
        return self

    def mark(self):
        self.tail.record(stream=self.stream)


class Pusher:
    threads = 256

    def __init__(self, pos, vel, field):
        self.pos = cuda.to_device(pos)
        self.vel = cuda.to_device(vel)
        self.field = cuda.to_device(field)
        self.acc = cuda.device_array_like(pos)
        self.gatherer, self.mover = Stage(), Stage()
        self.blocks = (pos.size + self.threads - 1) // self.threads

    def step(self, dt):
        g = self.gatherer.after(self.mover)
        gather[self.blocks, self.threads, g.stream](self.pos, self.field, self.acc)
        g.mark()
        m = self.mover.after(self.gatherer)
        push[self.blocks, self.threads, m.stream](self.pos, self.vel, self.acc, dt)
        m.mark()

    def positions(self):
        self.mover.stream.synchronize()
        return self.pos.copy_to_host()


def main():
    rng = np.random.default_rng(3)
    n = 1 << 20
    p = Pusher(rng.uniform(0, 1024, n), np.zeros(n), rng.normal(size=1024))
    for _ in range(100):
        p.step(1e-3)
    print(p.positions().mean())


if __name__ == "__main__":
    main()
