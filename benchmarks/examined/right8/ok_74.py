"""Explicit stream switching with use(), restored whatever happens."""
import cupy as cp


class Section:
    """Switches the thread's current stream and links it to the previous one on both ends."""

    def __init__(self, stream):
        self.stream = stream

    def begin(self):
        self.previous = cp.cuda.get_current_stream()
        mark = self.previous.record()
        self.stream.use()
        self.stream.wait_event(mark)

    def end(self):
        mark = self.stream.record()
        self.previous.use()
        self.previous.wait_event(mark)


def power_iteration(a, v, rounds):
    for _ in range(rounds):
        w = a @ v
        v[...] = w / cp.linalg.norm(w)


def dominant(a, section, rounds=60):
    v = cp.ones(a.shape[0], a.dtype)
    section.begin()
    try:
        power_iteration(a, v, rounds)
    finally:
        section.end()
    value = (v @ (a @ v)).item()
    a -= value * cp.outer(v, v)
    return value


def spectrum(a, k):
    section = Section(cp.cuda.Stream(non_blocking=True))
    return [dominant(a, section) for _ in range(k)]


def main(n=512):
    home = cp.cuda.Stream(non_blocking=True)
    outer = cp.cuda.get_current_stream()
    home.use()
    try:
        m = cp.random.rand(n, n)
        values = spectrum(m @ m.T, 4)
    finally:
        home.synchronize()
        outer.use()
    return values


if __name__ == "__main__":
    print(main())
