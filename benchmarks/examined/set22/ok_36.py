"""Slab allocator: a freed slab carries the event after which it may be touched again."""
import queue
import threading
from collections import defaultdict

import cupy as cp


class EventPool:
    def __init__(self):
        self.idle = defaultdict(list)

    def take(self, device_id):
        if self.idle[device_id]:
            return self.idle[device_id].pop()
        with cp.cuda.Device(device_id):
            return cp.cuda.Event(disable_timing=True)

    def give(self, device_id, event):
        self.idle[device_id].append(event)


class SlabResource:
    def __init__(self, n_slabs, n):
        self.lock = threading.Lock()
        self.events = EventPool()
        slabs = [cp.zeros(n, cp.float32) for _ in range(n_slabs)]
        cp.cuda.get_current_stream().synchronize()
        self.free_list = [(s, None) for s in slabs]

    def allocate(self, stream, device_id=0):
        with self.lock:
            slab, event = self.free_list.pop()
            if event is not None:
                stream.wait_event(event)
                self.events.give(device_id, event)
        return slab

    def deallocate(self, slab, stream, device_id=0):
        with self.lock:
            event = self.events.take(device_id)
            event.record(stream)
            self.free_list.append((slab, event))


class Worker(threading.Thread):
    def __init__(self, resource, region, value):
        super().__init__()
        self.resource, self.region, self.value = resource, region, value
        self.jobs = queue.Queue()

    def run(self):
        stream = cp.cuda.Stream(non_blocking=True)
        while self.jobs.get():
            slab = self.resource.allocate(stream)
            with stream:
                slab.fill(self.value)
                cp.sqrt(slab, out=slab)
                self.region += slab
            self.resource.deallocate(slab, stream)
        stream.synchronize()


def main():
    n = 1 << 20
    resource = SlabResource(3, n)
    regions = [cp.zeros(n, cp.float32) for _ in range(2)]
    cp.cuda.get_current_stream().synchronize()
    workers = [Worker(resource, r, float((i + 1) ** 2)) for i, r in enumerate(regions)]
    for w in workers:
        w.start()
    for _ in range(30):
        for w in workers:
            w.jobs.put(True)
    for w in workers:
        w.jobs.put(False)
    for w in workers:
        w.join()
    for i, region in enumerate(regions):
        assert float(region[0]) == 30.0 * (i + 1)


if __name__ == "__main__":
    main()
