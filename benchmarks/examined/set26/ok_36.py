"""Non-blocking writes of temporary host arrays with cuda.core."""
import ctypes
import numpy as np
from cuda.core.experimental import Device, EventOptions, LegacyPinnedMemoryResource


class HostTemporary:
    def __init__(self, mr, nbytes):
        self.buffer = mr.allocate(nbytes)
        self.nbytes = nbytes
        addr = int(self.buffer.handle)
        self.array = np.ctypeslib.as_array(
            (ctypes.c_uint8 * nbytes).from_address(addr))
        self.event = None


class HostTemporaries:
    """Keeps the source of a queued write alive until the write is done."""

    def __init__(self, limit=4):
        self.mr = LegacyPinnedMemoryResource()
        self.limit = limit
        self.parked = []

    def take(self, nbytes):
        for i, tmp in enumerate(self.parked):
            if tmp.nbytes == nbytes and tmp.event.is_done:
                return self.parked.pop(i)
        if len(self.parked) >= self.limit:
            tmp = self.parked.pop(0)
            tmp.event.sync()
            if tmp.nbytes == nbytes:
                return tmp
            tmp.buffer.close()
        return HostTemporary(self.mr, nbytes)

    def park(self, tmp, event):
        tmp.event = event
        self.parked.append(tmp)

    def close(self):
        for tmp in self.parked:
            tmp.event.sync()
            tmp.buffer.close()
        self.parked = []


class Queue:
    def __init__(self):
        self.device = Device()
        self.device.set_current()
        self.stream = self.device.create_stream()
        self.temporaries = HostTemporaries()

    def create_buffer(self, nbytes):
        return self.device.memory_resource.allocate(nbytes, stream=self.stream)

    def write_buffer(self, dst, values):
        tmp = self.temporaries.take(values.nbytes)
        tmp.array[:] = values.view(np.uint8).ravel()
        tmp.buffer.copy_to(dst, stream=self.stream)
        event = self.stream.record(options=EventOptions(enable_timing=False))
        self.temporaries.park(tmp, event)

    def read_buffer(self, src, dtype):
        tmp = HostTemporary(self.temporaries.mr, src.size)
        src.copy_to(tmp.buffer, stream=self.stream)
        self.stream.sync()
        out = tmp.array.view(dtype).copy()
        tmp.buffer.close()
        return out


def main(n=1 << 20, levels=16):
    queue = Queue()
    pyramid = [queue.create_buffer(n * 4) for _ in range(levels)]
    for lvl, buf in enumerate(pyramid):
        queue.write_buffer(buf, np.full(n, lvl, np.float32))
    for lvl, buf in enumerate(pyramid):
        out = queue.read_buffer(buf, np.float32)
        assert (out == lvl).all()
    for buf in pyramid:
        buf.close(queue.stream)
    queue.temporaries.close()
    queue.stream.sync()


if __name__ == "__main__":
    main()
