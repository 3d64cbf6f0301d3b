"""Decoder processes fill shared slots that the trainer registers with CUDA."""
import multiprocessing as mp
from multiprocessing import shared_memory

import numpy as np
import torch


def decoder(name, shape, slots, todo, done):
    shm = shared_memory.SharedMemory(name=name)
    ring = np.ndarray((slots, *shape), np.uint8, buffer=shm.buf)
    rng = np.random.default_rng()
    while (slot := todo.get()) is not None:
        ring[slot] = rng.integers(0, 255, shape, dtype=np.uint8)
        done.put(slot)
    del ring
    shm.close()


class SharedRing:
    def __init__(self, shape, slots):
        nbytes = int(np.prod(shape)) * slots
        self.shm = shared_memory.SharedMemory(create=True, size=nbytes)
        flat = torch.frombuffer(self.shm.buf, dtype=torch.uint8, count=nbytes)
        self.ring = flat.view(slots, *shape)
        code = torch.cuda.cudart().cudaHostRegister(self.ring.data_ptr(), nbytes, 0)
        assert int(code) == 0
        self.moved = [torch.cuda.Event() for _ in range(slots)]

    def upload(self, slot):
        image = self.ring[slot].to("cuda", non_blocking=True)
        self.moved[slot].record()
        return image


def main(steps=200, slots=6, shape=(32, 3, 224, 224)):
    ctx = mp.get_context("spawn")
    todo, done = ctx.Queue(), ctx.Queue()
    ring = SharedRing(shape, slots)
    procs = [ctx.Process(target=decoder, args=(ring.shm.name, shape, slots, todo, done)) for _ in range(2)]
    for p in procs:
        p.start()
    for slot in range(slots):
        todo.put(slot)
    mean = torch.zeros(3, device="cuda")
    busy = []
    for _ in range(steps):
        slot = done.get()
        image = ring.upload(slot)
        mean += image.float().mean((0, 2, 3)) / 255
        busy.append(slot)
        if len(busy) > 2:
            oldest = busy.pop(0)
            ring.moved[oldest].synchronize()
            todo.put(oldest)
    torch.cuda.synchronize()
    for _ in procs:
        todo.put(None)
    for p in procs:
        p.join()
    print((mean / steps).tolist())


if __name__ == "__main__":
    main()
