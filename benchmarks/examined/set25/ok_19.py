import os
from collections import deque

import torch
import torch.distributed as dist
import torch.nn as nn


class RecvSlot:
    def __init__(self, shape, device):
        self.buffer = torch.empty(shape, device=device)
        self.consumed = None
        self.busy = False


class RecvBufferPool:
    def __init__(self, depth, shape, device):
        self.slots = [RecvSlot(shape, device) for _ in range(depth)]

    def acquire(self, stream):
        for slot in self.slots:
            if not slot.busy:
                slot.busy = True
                if slot.consumed is not None:
                    stream.wait_event(slot.consumed)
                return slot
        raise RuntimeError("no free receive slot")

    def release(self, slot, stream):
        slot.consumed = stream.record_event()
        slot.busy = False


class Stage(nn.Module):
    def __init__(self, dim, rank, world, depth, batch, device):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)).to(device)
        self.rank = rank
        self.world = world
        self.p2p_stream = torch.cuda.Stream()
        self.pool = RecvBufferPool(depth, (batch, dim), device)
        self.sends = deque()
        self.depth = depth
        self.p2p_stream.wait_stream(torch.cuda.current_stream())

    def post_recv(self):
        slot = self.pool.acquire(self.p2p_stream)
        with torch.cuda.stream(self.p2p_stream):
            work = dist.irecv(slot.buffer, self.rank - 1)
        return slot, work

    def send(self, out):
        self.p2p_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.p2p_stream):
            work = dist.isend(out, self.rank + 1)
        self.sends.append((work, out))
        while len(self.sends) > self.depth:
            self.retire()

    def retire(self):
        work, out = self.sends.popleft()
        work.wait()
        del out

    @torch.inference_mode()
    def run(self, micro_batches):
        compute = torch.cuda.current_stream()
        results = []
        n = len(micro_batches)
        recvs = deque()
        posted = 0
        for i in range(n):
            if self.rank == 0:
                x = micro_batches[i]
                y = self.net(x)
            else:
                while posted < n and len(recvs) < self.depth:
                    recvs.append(self.post_recv())
                    posted += 1
                slot, work = recvs.popleft()
                work.wait()
                y = self.net(slot.buffer)
                self.pool.release(slot, compute)
            if self.rank < self.world - 1:
                self.send(y)
            else:
                results.append(y)
        while self.sends:
            self.retire()
        return results


def main():
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    stage = Stage(1024, rank, world, 2, 256, device)
    for _ in range(8):
        mbs = [torch.randn(256, 1024, device=device) for _ in range(12)]
        out = stage.run(mbs)
    if out:
        print(torch.stack(out).std().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
