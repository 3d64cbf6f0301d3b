"""Spectrum workers: one thread synthesises device arrays, three threads consume them (CuPy)."""
import queue
import threading

import cupy as cp

LENGTH = 1 << 16
synth = cp.ElementwiseKernel(
    "float32 phase, float32 drift", "float32 out",
    "out = sinf(phase * i) + 0.3f * cosf((phase + drift) * i)", "synth")


class Parcel:
    __slots__ = ("number", "array", "made", "used")

    def __init__(self, number, array, made):
        self.number, self.array, self.made = number, array, made
        self.used = None


class Synthesiser(threading.Thread):
    def __init__(self, count, window, outbox, returns, consumers):
        super().__init__()
        self.count, self.window = count, window
        self.outbox, self.returns, self.consumers = outbox, returns, consumers

    def _retire(self, stream):
        parcel = self.returns.get()
        stream.wait_event(parcel.used)
        parcel.array = None

    def run(self):
        cp.cuda.Device(0).use()
        stream = cp.cuda.Stream(non_blocking=True)
        alive = 0
        with stream:
            for number in range(self.count):
                if alive == self.window:
                    self._retire(stream)
                    alive -= 1
                array = cp.empty(LENGTH, dtype=cp.float32)
                synth(0.001 * (number + 1), 0.0005 * (number % 7), array)
                made = cp.cuda.Event(disable_timing=True)
                made.record(stream)
                self.outbox.put(Parcel(number, array, made))
                del array
                alive += 1
            for _ in range(self.consumers):
                self.outbox.put(None)
            while alive:
                self._retire(stream)
                alive -= 1
            stream.synchronize()


class Analyst(threading.Thread):
    def __init__(self, inbox, returns, sink, lock):
        super().__init__()
        self.inbox, self.returns = inbox, returns
        self.sink, self.lock = sink, lock

    def run(self):
        cp.cuda.Device(0).use()
        stream = cp.cuda.Stream(non_blocking=True)
        with stream:
            taper = cp.hanning(LENGTH).astype(cp.float32)
            while True:
                parcel = self.inbox.get()
                if parcel is None:
                    break
                stream.wait_event(parcel.made)
                weighted = parcel.array * taper
                parcel.used = cp.cuda.Event(disable_timing=True)
                parcel.used.record(stream)
                number = parcel.number
                self.returns.put(parcel)
                power = cp.abs(cp.fft.rfft(weighted)) ** 2
                peak = int(cp.argmax(power))
                total = float(power.sum())
                with self.lock:
                    self.sink[number] = (peak, total)
            stream.synchronize()


def main(count=400, consumers=3, window=8):
    cp.cuda.set_allocator(cp.cuda.MemoryAsyncPool().malloc)
    outbox, returns = queue.Queue(), queue.Queue()
    sink, lock = {}, threading.Lock()
    maker = Synthesiser(count, window, outbox, returns, consumers)
    crew = [Analyst(outbox, returns, sink, lock) for _ in range(consumers)]
    for thread in [maker, *crew]:
        thread.start()
    for thread in [maker, *crew]:
        thread.join()
    assert sorted(sink) == list(range(count))
    print("highest peak", max(p for p, _ in sink.values()))


if __name__ == "__main__":
    main()
