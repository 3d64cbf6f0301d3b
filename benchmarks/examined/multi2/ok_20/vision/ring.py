from contextlib import contextmanager

from .cudart import check, event, rt


class Slot:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.ptr = check(rt.cudaMalloc(nbytes))
        self.host = check(rt.cudaMallocHost(nbytes))
        self.filled = event()
        self.emptied = event()


class DeviceRing:
    """Slots handed round between one producer and one consumer stream."""

    def __init__(self, count, nbytes):
        self.slots = [Slot(nbytes) for _ in range(count)]
        self.head = self.tail = 0

    @contextmanager
    def produce(self, stream):
        slot = self.slots[self.head % len(self.slots)]
        check(rt.cudaEventSynchronize(slot.filled))
        check(rt.cudaStreamWaitEvent(stream, slot.emptied, 0))
        yield slot
        check(rt.cudaEventRecord(slot.filled, stream))
        self.head += 1

    @contextmanager
    def consume(self, stream):
        slot = self.slots[self.tail % len(self.slots)]
        check(rt.cudaStreamWaitEvent(stream, slot.filled, 0))
        yield slot
        check(rt.cudaEventRecord(slot.emptied, stream))
        self.tail += 1
