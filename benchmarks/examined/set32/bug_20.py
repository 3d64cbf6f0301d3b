"""Sharded snapshot: ranks stage their shards in shared pinned memory, rank 0 writes the file."""
import os

import numpy as np
import torch
import torch.distributed as dist
from multiprocessing import shared_memory


class DeviceBarrier:
    """Barrier as a one-element all-reduce on the current stream."""

    def __init__(self, group=None):
        self.group = group
        self.token = torch.zeros(1, device="cuda")

    def arrive(self):
        return dist.all_reduce(self.token, group=self.group, async_op=True)

    def __call__(self):
        self.arrive().wait()


class SharedStage:
    """A host segment mapped by all local ranks and registered with CUDA."""

    def __init__(self, name, nbytes, owner, barrier):
        if owner:
            self.shm = shared_memory.SharedMemory(name=name, create=True, size=nbytes)
        dist.barrier()
        if not owner:
            self.shm = shared_memory.SharedMemory(name=name)
        self.owner = owner
        self.barrier = barrier
        self.data = torch.from_numpy(np.frombuffer(self.shm.buf, np.uint8, nbytes))
        err = torch.cuda.cudart().cudaHostRegister(self.data.data_ptr(), nbytes, 0)
        if int(err) != 0:
            raise RuntimeError(f"cudaHostRegister failed: {err}")

    def slot(self, rank, nbytes):
        return self.data[rank * nbytes : (rank + 1) * nbytes]

    def close(self):
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaHostUnregister(self.data.data_ptr())
        del self.data
        self.shm.close()
        if self.owner:
            self.shm.unlink()


class SnapshotWriter:
    def __init__(self, shard_bytes, name="snapshot-stage"):
        self.rank = dist.get_rank()
        self.world = dist.get_world_size()
        self.shard_bytes = shard_bytes
        self.barrier = DeviceBarrier()
        self.stage = SharedStage(
            name, shard_bytes * self.world, self.rank == 0, self.barrier
        )

    def save(self, shard, path):
        flat = shard.detach().contiguous().view(-1).view(torch.uint8)
        slot = self.stage.slot(self.rank, self.shard_bytes)
        slot[: flat.numel()].copy_(flat, non_blocking=True)
        self.barrier()
        if self.rank == 0:
            with open(path, "wb") as f:
                f.write(self.stage.data.numpy().tobytes())


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    shard = torch.zeros(1 << 26, device="cuda")
    writer = SnapshotWriter(shard.numel() * shard.element_size())
    for step in range(40):
        for _ in range(20):
            shard.mul_(0.999).add_(torch.rand_like(shard), alpha=1e-3)
        if step % 10 == 9:
            writer.save(shard, f"/tmp/snapshot-{step}.bin")
            dist.barrier()
    writer.stage.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
