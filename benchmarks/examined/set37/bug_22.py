"""Engine memory that can be released and mapped again without losing its addresses."""
import cupy as cp
import numpy as np
from cuda.bindings import driver as drv


def _check(result):
    err, *values = result
    if err != drv.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"driver call failed: {err}")
    return values[0] if len(values) == 1 else tuple(values)


class MappedRegion:
    """A reserved address range with one physical allocation behind it."""

    def __init__(self, nbytes, device_id=0):
        prop = drv.CUmemAllocationProp()
        prop.type = drv.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        prop.location.type = drv.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        prop.location.id = device_id
        self.prop = prop
        flag = drv.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        gran = _check(drv.cuMemGetAllocationGranularity(prop, flag))
        self.size = (nbytes + gran - 1) // gran * gran
        self.ptr = _check(drv.cuMemAddressReserve(self.size, 0, 0, 0))
        self.handle = None
        self.map()

    def map(self):
        self.handle = _check(drv.cuMemCreate(self.size, self.prop, 0))
        _check(drv.cuMemMap(self.ptr, self.size, 0, self.handle, 0))
        desc = drv.CUmemAccessDesc()
        desc.location = self.prop.location
        desc.flags = drv.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        _check(drv.cuMemSetAccess(self.ptr, self.size, [desc], 1))

    def unmap(self):
        _check(drv.cuMemUnmap(self.ptr, self.size))
        _check(drv.cuMemRelease(self.handle))
        self.handle = None

    def array(self, shape, dtype):
        mem = cp.cuda.UnownedMemory(int(self.ptr), self.size, self)
        return cp.ndarray(shape, dtype, memptr=cp.cuda.MemoryPointer(mem, 0))


class Engine:
    def __init__(self, hidden=4096, tokens=16384):
        cp.cuda.Device(0).use()
        cp.zeros(1)
        self.weights_region = MappedRegion(hidden * hidden * 4)
        self.kv_region = MappedRegion(tokens * hidden * 4)
        self.weights = self.weights_region.array((hidden, hidden), np.float32)
        self.kv_cache = self.kv_region.array((tokens, hidden), np.float32)
        self.weights.fill(0.01)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.backup = None
        self.cursor = 0
        cp.cuda.Device(0).synchronize()

    def execute_model(self, hidden_states):
        """Enqueues one step and returns the event that marks its end."""
        n = hidden_states.shape[0]
        with self.stream:
            for _ in range(8):
                hidden_states = cp.tanh(hidden_states @ self.weights)
            self.kv_cache[self.cursor:self.cursor + n] = hidden_states
            done = self.stream.record()
        self.cursor = (self.cursor + n) % (self.kv_cache.shape[0] - n)
        return hidden_states, done

    def sleep(self):
        nbytes = self.weights.nbytes
        self.backup = np.empty(self.weights.shape, np.float32)
        _check(drv.cuMemcpyDtoH(self.backup.ctypes.data, self.weights_region.ptr, nbytes))
        self.weights_region.unmap()
        self.kv_region.unmap()

    def wake_up(self):
        self.weights_region.map()
        self.kv_region.map()
        _check(drv.cuMemcpyHtoD(self.weights_region.ptr, self.backup.ctypes.data, self.backup.nbytes))
        cp.cuda.Device(0).synchronize()
        self.backup = None
        self.cursor = 0


def serve(engine, batches):
    last = None
    for batch in batches:
        last = engine.execute_model(batch)
    engine.sleep()
    engine.wake_up()
    return last


if __name__ == "__main__":
    eng = Engine()
    work = [cp.ones((512, 4096), np.float32) for _ in range(16)]
    cp.cuda.Device(0).synchronize()
    serve(eng, work)
