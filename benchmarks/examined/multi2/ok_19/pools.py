from pycuda.tools import DeviceMemoryPool


class Pools:
    """One memory pool a stream, made when first asked for."""

    def __init__(self):
        self._by_stream = {}

    def of(self, stream):
        key = stream.handle
        if key not in self._by_stream:
            self._by_stream[key] = (DeviceMemoryPool(), stream)
        return self._by_stream[key][0]

    def held(self):
        return sum(pool.managed_bytes for pool, _ in self._by_stream.values())


shared = Pools()


def summary(pools=shared):
    """Held memory in MiB, for logs."""
    return f"{pools.held() / 2 ** 20:.1f} MiB in {len(pools._by_stream)} pools"
