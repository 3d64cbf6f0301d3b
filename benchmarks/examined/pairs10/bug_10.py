"""Shuffle service: device partitions are spilled through RMM buffers."""
import cupyx
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream


class PinnedArea:
    def __init__(self, nbytes):
        self.array = cupyx.empty_pinned(nbytes, dtype=np.uint8)


class Spiller:
    """Moves partitions between device and host memory on a private stream."""

    def __init__(self, partition_bytes):
        self.partition_bytes = partition_bytes
        self.stream = Stream()
        self.area = PinnedArea(partition_bytes)
        self.spilled = {}

    def load(self, payload):
        return rmm.DeviceBuffer.to_device(payload, self.stream)

    def spill(self, key, buffer):
        """Copy a partition to the host and store its bytes under key."""
        buffer.copy_to_host(self.area.array, self.stream)
        self.spilled[key] = self.area.array.tobytes()

    def restore(self, key):
        return self.load(self.spilled.pop(key))

    def flush(self):
        self.stream.synchronize()


def round_trip(partitions=32, nbytes=32 << 20):
    rmm.reinitialize(pool_allocator=True, initial_pool_size=2 << 30)
    spiller = Spiller(nbytes)
    rng = np.random.default_rng(9)
    checks = {}
    for key in range(partitions):
        payload = rng.bytes(nbytes)
        checks[key] = hash(payload)
        buffer = spiller.load(payload)
        spiller.spill(key, buffer)
    spiller.flush()
    return sum(hash(spiller.spilled[key]) == checks[key] for key in range(partitions))


if __name__ == "__main__":
    print(round_trip())
