"""Write simulation checkpoints straight from GPU memory with KvikIO."""
import cupy as cp
import kvikio


class CheckpointWriter:
    def __init__(self, shape, slots=2):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.buffers = [cp.empty(shape, cp.float32) for _ in range(slots)]
        self.pending = [None] * slots
        self.turn = 0

    def save(self, state, path):
        slot = self.turn % len(self.buffers)
        self.turn += 1
        self._wait(slot)
        buf = self.buffers[slot]
        with self.stream:
            buf[...] = state
        self.stream.synchronize()
        f = kvikio.CuFile(path, "w")
        self.pending[slot] = (f, f.pwrite(buf))

    def _wait(self, slot):
        if self.pending[slot] is not None:
            f, future = self.pending[slot]
            future.get()
            f.close()
            self.pending[slot] = None

    def close(self):
        for slot in range(len(self.buffers)):
            self._wait(slot)


def run(steps=1000, every=50, n=8192):
    writer = CheckpointWriter((n, n))
    with writer.stream:
        u = cp.zeros((n, n), cp.float32)
        u[n // 2, n // 2] = 1000.0
        for step in range(steps):
            u[1:-1, 1:-1] += 0.1 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2]
                                    + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
            if step % every == 0:
                writer.save(u, f"ckpt_{step:06d}.bin")
    writer.close()


if __name__ == "__main__":
    run()
