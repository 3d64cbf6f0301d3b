import numpy as np
from numba import cuda


@cuda.jit
def count_flags(codes, wanted, counters, slot):
    i = cuda.grid(1)
    if i < codes.size and codes[i] == wanted:
        cuda.atomic.add(counters, slot, 1)


class Watcher:
    """Counters live in mapped host memory, one word and one event per query."""

    def __init__(self, codes, slots=16):
        self.stream = cuda.stream()
        self.codes = cuda.to_device(codes)
        self.counters = cuda.mapped_array(slots, np.int32)
        self.events = [cuda.event(timing=False) for _ in range(slots)]
        self.open = {}
        self.free = list(range(slots))

    def ask(self, wanted):
        slot = self.free.pop()
        self.counters[slot] = 0
        blocks = (self.codes.size + 255) // 256
        count_flags[blocks, 256, self.stream](self.codes, wanted, self.counters, slot)
        self.events[slot].record(self.stream)
        self.open[wanted] = slot

    def answer(self, wanted):
        slot = self.open.pop(wanted)
        self.events[slot].synchronize()
        value = int(self.counters[slot])
        self.free.append(slot)
        return value


if __name__ == "__main__":
    codes = np.random.randint(0, 10, 1 << 22).astype(np.int32)
    watcher = Watcher(codes)
    for c in range(10):
        watcher.ask(c)
    answers = {c: watcher.answer(c) for c in range(10)}
    print(sum(answers.values()) == codes.size)
