"""Record player: blocks go to the device whenever a buffer happens to be free."""
import cupy as cp
import cupyx
import numpy as np

BLOCK = 1 << 19


class Buffer:
    def __init__(self):
        self.host = cupyx.empty_pinned(BLOCK, np.float32)
        self.event = None

    @property
    def idle(self):
        return self.event is None or self.event.done

    def wait(self):
        if self.event is not None:
            self.event.synchronize()
            self.event = None


class Player:
    def __init__(self, buffers=4, gain=0.5):
        self.buffers = [Buffer() for _ in range(buffers)]
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.gain = gain
        self.waits = 0
        with self.stream:
            self.mix = cp.zeros(BLOCK, cp.float32)

    def _pick(self):
        for buffer in self.buffers:
            if buffer.idle:
                return buffer
        self.waits += 1
        oldest = self.buffers[0]
        oldest.wait()
        return oldest

    def play(self, samples):
        buffer = self._pick()
        self.buffers.remove(buffer)
        buffer.host[:] = samples
        with self.stream:
            block = cp.empty(BLOCK, cp.float32)
            block.set(buffer.host, stream=self.stream)
            buffer.event = self.stream.record()
            self.mix *= 1.0 - self.gain
            self.mix += self.gain * block
        self.buffers.append(buffer)

    def level(self):
        with self.stream:
            return float(cp.abs(self.mix).max())


if __name__ == "__main__":
    rng = np.random.default_rng(56)
    player = Player()
    for _ in range(200):
        player.play(rng.standard_normal(BLOCK, dtype=np.float32))
    print(player.level(), player.waits)
