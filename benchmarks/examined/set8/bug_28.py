import ctypes
from collections import deque

from cuda.core import Device, DeviceMemoryResource, LegacyPinnedMemoryResource


class ChunkProducer:

    def __init__(self, device, chunk_bytes):
        self.device = device
        self.chunk_bytes = chunk_bytes
        self.stream = device.create_stream()
        self.mr = DeviceMemoryResource(device)

    def produce(self, value):
        buffer = self.mr.allocate(self.chunk_bytes, stream=self.stream)
        buffer.fill(value & 0xFF, stream=self.stream)
        ready = self.stream.record()
        return buffer, ready


class ChunkWriter:

    def __init__(self, device, chunk_bytes, depth):
        self.stream = device.create_stream()
        self.pinned = LegacyPinnedMemoryResource()
        self.free_slots = deque(self.pinned.allocate(chunk_bytes) for _ in range(depth))
        self.in_flight = deque()

    def submit(self, buffer, ready):
        if not self.free_slots:
            yield self._retire()
        slot = self.free_slots.popleft()
        self.stream.wait(ready)
        buffer.copy_to(slot, stream=self.stream)
        self.in_flight.append((slot, self.stream.record()))
        buffer.close()

    def _retire(self):
        slot, done = self.in_flight.popleft()
        done.sync()
        data = ctypes.string_at(int(slot.handle), slot.size)
        self.free_slots.append(slot)
        return data

    def drain(self):
        while self.in_flight:
            yield self._retire()

    def close(self):
        self.stream.sync()
        while self.free_slots:
            self.free_slots.pop().close()
        self.stream.close()


def pump(path, chunks, chunk_bytes=1 << 22, depth=3):
    device = Device()
    device.set_current()
    producer = ChunkProducer(device, chunk_bytes)
    writer = ChunkWriter(device, chunk_bytes, depth)
    with open(path, "wb") as f:
        for i in range(chunks):
            buffer, ready = producer.produce(i)
            for data in writer.submit(buffer, ready):
                f.write(data)
        for data in writer.drain():
            f.write(data)
    writer.close()
    producer.stream.sync()
    producer.stream.close()


if __name__ == "__main__":
    pump("chunks.bin", 64)
