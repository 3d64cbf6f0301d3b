import numpy as np
import torch


class NativePinnedPool:
    """Page-locked slabs that are handed out and taken back by hand."""

    def __init__(self, slab_bytes, num_slabs):
        self.slab_bytes = slab_bytes
        self.free = [
            torch.empty(slab_bytes, dtype=torch.uint8, pin_memory=True) for _ in range(num_slabs)
        ]

    def acquire(self):
        if not self.free:
            raise MemoryError("no pinned slab left")
        return self.free.pop()

    def release(self, slab):
        self.free.append(slab)


class OffloadedTensor:
    def __init__(self, tensor, slabs, shape, dtype):
        self.tensor = tensor
        self.slabs = slabs
        self.shape = shape
        self.dtype = dtype


class OptimizerStates:
    """Moves the flat fp32 states of an optimizer between device and host."""

    def __init__(self, partitions, pool):
        self.partitions = partitions
        self.pool = pool
        self.offloaded = []
        self.copy_stream = torch.cuda.Stream()

    def offload_states(self):
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        for partition in self.partitions:
            data = partition.data.view(-1).view(torch.uint8)
            slabs = []
            with torch.cuda.stream(self.copy_stream):
                for begin in range(0, data.numel(), self.pool.slab_bytes):
                    part = data[begin : begin + self.pool.slab_bytes]
                    slab = self.pool.acquire()
                    slab[: part.numel()].copy_(part, non_blocking=True)
                    slabs.append((slab, begin, part.numel()))
            self.offloaded.append(OffloadedTensor(partition, slabs, partition.shape, partition.dtype))
        self.copy_stream.synchronize()
        for item in self.offloaded:
            item.tensor.data = torch.empty(0, dtype=item.dtype, device="cuda")

    def reload_states(self, non_blocking=False):
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        for item in self.offloaded:
            data = torch.empty(item.shape, dtype=item.dtype, device="cuda")
            flat = data.view(-1).view(torch.uint8)
            flat.record_stream(self.copy_stream)
            self.copy_stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.copy_stream):
                for slab, begin, size in item.slabs:
                    flat[begin : begin + size].copy_(slab[:size], non_blocking=True)
            item.tensor.data = data
            for slab, _, _ in item.slabs:
                self.pool.release(slab)
        self.offloaded.clear()
        if non_blocking:
            torch.cuda.current_stream().wait_stream(self.copy_stream)
        else:
            self.copy_stream.synchronize()


class RolloutStager:
    """Uploads rollouts, which arrive as numpy arrays, through the same slabs."""

    def __init__(self, pool):
        self.pool = pool

    def upload(self, array):
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        slab = self.pool.acquire()
        slab[: raw.size].copy_(torch.from_numpy(raw))
        out = torch.empty(raw.size, dtype=torch.uint8, device="cuda")
        out.copy_(slab[: raw.size], non_blocking=True)
        torch.cuda.current_stream().synchronize()
        self.pool.release(slab)
        return out.view(torch.from_numpy(array[:0]).dtype).view(array.shape)


def rlhf_loop(engine, rollout_source, partitions, steps, slab_bytes=32 << 20, num_slabs=512):
    pool = NativePinnedPool(slab_bytes, num_slabs)
    states = OptimizerStates(partitions, pool)
    stager = RolloutStager(pool)
    for _ in range(steps):
        states.offload_states()
        arrays = rollout_source.generate()
        states.reload_states(non_blocking=True)
        batch = {name: stager.upload(a) for name, a in arrays.items()}
        engine.train_batch(batch)
