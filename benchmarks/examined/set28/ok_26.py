"""Background output of simulation fields through page-locked staging buffers."""
import cupy as cp
import cupyx
import numpy as np


class _Slot:
    def __init__(self, shape, dtype):
        self.host = cupyx.empty_pinned(shape, dtype=dtype)
        self.device = cp.empty(shape, dtype=dtype)
        self.event = None
        self.generation = 0


class StagedCopy:
    """Handle of a copy that was started by :meth:`HostStaging.copy`."""

    def __init__(self, slot):
        self._slot = slot
        self._generation = slot.generation

    def _check(self):
        if self._slot.generation != self._generation:
            raise RuntimeError("the host buffer of this copy was reused")

    def ready(self):
        self._check()
        return self._slot.event.done

    def result(self):
        self._check()
        self._slot.event.synchronize()
        return self._slot.host


class HostStaging:
    def __init__(self, shape, dtype, buffers=2):
        self._slots = [_Slot(shape, dtype) for _ in range(buffers)]
        self._next = 0
        self._stream = cp.cuda.Stream(non_blocking=True)

    def copy(self, array):
        slot = self._slots[self._next]
        self._next = (self._next + 1) % len(self._slots)
        if slot.event is not None:
            slot.event.synchronize()
        slot.generation += 1
        slot.device[...] = array
        snapshot = cp.cuda.get_current_stream().record()
        self._stream.wait_event(snapshot)
        slot.device.get(stream=self._stream, out=slot.host, blocking=False)
        slot.event = self._stream.record()
        return StagedCopy(slot)


class Advection:
    def __init__(self, n):
        self.rho = cp.zeros((n, n), dtype=cp.float32)
        self.rho[n // 4 : n // 2, n // 4 : n // 2] = 1.0
        self._tmp = cp.empty_like(self.rho)

    def step(self, cfl):
        cp.multiply(self.rho, 1.0 - cfl, out=self._tmp)
        self._tmp[1:] += cfl * self.rho[:-1]
        self.rho, self._tmp = self._tmp, self.rho


def run(n=2048, n_steps=400, output_every=10, sink=None):
    solver_stream = cp.cuda.Stream(non_blocking=True)
    totals = {}
    with solver_stream:
        sim = Advection(n)
        staging = HostStaging(sim.rho.shape, sim.rho.dtype)
        pending = []
        for step in range(n_steps):
            sim.step(0.4)
            if step % output_every:
                continue
            while len(pending) >= 2 or (pending and pending[0][1].ready()):
                s, copy = pending.pop(0)
                totals[s] = float(np.sum(copy.result()))
                if sink is not None:
                    sink.write(copy.result().tobytes())
            pending.append((step, staging.copy(sim.rho)))
        for s, copy in pending:
            totals[s] = float(np.sum(copy.result()))
    return totals


if __name__ == "__main__":
    print(run())
