"""Dump intermediate wavefields of a seismic run through GPUDirect Storage."""
import cupy as cp
import kvikio


class WavefieldDump:
    def __init__(self, shape, slots=3):
        self.work = cp.cuda.Stream(non_blocking=True)
        with self.work:
            self.slots = [cp.empty(shape, cp.float32) for _ in range(slots)]
        self.jobs = []
        self.n = 0

    def store(self, field, filename):
        target = self.slots[self.n % len(self.slots)]
        self.n += 1
        with self.work:
            cp.copyto(target, field)
        self.work.synchronize()
        handle = kvikio.CuFile(filename, "w")
        self.jobs.append((handle, handle.pwrite(target)))

    def join(self):
        for handle, job in self.jobs:
            job.get()
            handle.close()
        self.jobs.clear()


def propagate(p, p_old, c2):
    lap = -4 * p
    lap[1:] += p[:-1]
    lap[:-1] += p[1:]
    lap[:, 1:] += p[:, :-1]
    lap[:, :-1] += p[:, 1:]
    return 2 * p - p_old + c2 * lap


def main(n=8192, steps=2000, every=20):
    dump = WavefieldDump((n, n))
    with dump.work:
        p, p_old = cp.zeros((n, n), cp.float32), cp.zeros((n, n), cp.float32)
        p[n // 2, n // 2] = 1.0
        for it in range(steps):
            p, p_old = propagate(p, p_old, cp.float32(0.2)), p
            if it % every == 0:
                dump.store(p, f"wave_{it:05d}.raw")
    dump.join()


if __name__ == "__main__":
    main()
