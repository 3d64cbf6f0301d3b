"""Hundreds of filter passes with a ring of slots and coefficients refreshed on the side (Numba)."""
import numpy as np
from numba import cuda

TAPS = 24
BLOCK = 128


@cuda.jit
def convolve(signal, taps, out):
    i = cuda.grid(1)
    if i < out.size:
        acc = 0.0
        for j in range(taps.size):
            if i + j < signal.size:
                acc += taps[j] * signal[i + j]
        out[i] = acc


@cuda.jit
def normalise(taps):
    if cuda.grid(1) == 0:
        total = 0.0
        for j in range(taps.size):
            total += abs(taps[j])
        for j in range(taps.size):
            taps[j] /= total


class Slot:
    def __init__(self, n):
        self.h_in = cuda.pinned_array(n, dtype=np.float64)
        self.h_out = cuda.pinned_array(n, dtype=np.float64)
        self.d_in = cuda.device_array(n, dtype=np.float64)
        self.d_out = cuda.device_array(n, dtype=np.float64)
        self.stream = cuda.stream()
        self.done = cuda.event(timing=False)
        self.number = None


class Coefficients:
    def __init__(self, banks=2):
        self.host = [cuda.pinned_array(TAPS, dtype=np.float64) for _ in range(banks)]
        self.device = [cuda.device_array(TAPS, dtype=np.float64) for _ in range(banks)]
        self.fresh = [cuda.event(timing=False) for _ in range(banks)]
        self.readers = [{} for _ in range(banks)]
        self.stream = cuda.stream()
        self.active = banks - 1

    def refresh(self, values):
        bank = (self.active + 1) % len(self.device)
        for event in self.readers[bank].values():
            event.wait(self.stream)
        self.readers[bank] = {}
        self.fresh[bank].synchronize()
        self.host[bank][:] = values
        self.device[bank].copy_to_device(self.host[bank], stream=self.stream)
        normalise[1, 1, self.stream](self.device[bank])
        self.fresh[bank].record(self.stream)
        self.active = bank

    def borrow(self, stream):
        self.fresh[self.active].wait(stream)
        return self.active, self.device[self.active]

    def lend(self, bank, stream):
        event = cuda.event(timing=False)
        event.record(stream)
        self.readers[bank][stream] = event


class FilterBank:
    def __init__(self, n, depth):
        self.n = n
        self.slots = [Slot(n) for _ in range(depth)]
        self.coefficients = Coefficients()
        self.grid = (n + BLOCK - 1) // BLOCK
        self.output = {}

    def _collect(self, slot):
        if slot.number is not None:
            slot.done.synchronize()
            self.output[slot.number] = float(np.sqrt(np.mean(slot.h_out ** 2)))
            slot.number = None

    def push(self, number, signal):
        slot = self.slots[number % len(self.slots)]
        self._collect(slot)
        slot.h_in[:] = signal
        slot.d_in.copy_to_device(slot.h_in, stream=slot.stream)
        bank, taps = self.coefficients.borrow(slot.stream)
        convolve[self.grid, BLOCK, slot.stream](slot.d_in, taps, slot.d_out)
        self.coefficients.lend(bank, slot.stream)
        slot.d_out.copy_to_host(slot.h_out, stream=slot.stream)
        slot.done.record(slot.stream)
        slot.number = number

    def drain(self):
        for slot in self.slots:
            self._collect(slot)
        return self.output


def main(passes=700, every=40):
    rng = np.random.default_rng(9)
    bank = FilterBank(1 << 15, depth=4)
    for number in range(passes):
        if number % every == 0:
            bank.coefficients.refresh(rng.standard_normal(TAPS))
        bank.push(number, rng.standard_normal(bank.n))
    levels = bank.drain()
    print(len(levels), min(levels.values()), max(levels.values()))


if __name__ == "__main__":
    main()
