"""Scratch memory for the whole process."""
import functools

from pycuda.tools import DeviceMemoryPool


@functools.lru_cache(maxsize=None)
def _pool():
    return DeviceMemoryPool()


def scratch(nbytes):
    return _pool().allocate(nbytes)


def trim():
    _pool().free_held()


def usage():
    """What the pool holds and what is handed out, in MiB."""
    pool = _pool()
    return {
        "held_blocks": pool.held_blocks,
        "active_blocks": pool.active_blocks,
        "managed": pool.managed_bytes / 2 ** 20,
        "active": pool.active_bytes / 2 ** 20,
    }


def report(prefix=""):
    for key, value in usage().items():
        print(f"{prefix}{key}: {value}")
