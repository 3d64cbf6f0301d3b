"""Forward-only pipeline stage with a bounded pool of receive buffers."""
from collections import deque

import torch
import torch.distributed as dist
from torch import nn


class RecvSlot:
    def __init__(self, shape, dtype):
        self.buffer = torch.empty(shape, dtype=dtype, device="cuda")
        self.work = None


class StageComm:
    def __init__(self, shape, dtype, group, depth=2):
        self.group = group
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)
        self.slots = deque(RecvSlot(shape, dtype) for _ in range(depth))
        self.posted = deque()
        self.sends = deque()

    @property
    def is_first(self):
        return self.rank == 0

    @property
    def is_last(self):
        return self.rank == self.size - 1

    def post_recv(self):
        slot = self.slots.popleft()
        op = dist.P2POp(dist.irecv, slot.buffer, dist.get_global_rank(self.group, self.rank - 1), self.group)
        slot.work = dist.batch_isend_irecv([op])
        self.posted.append(slot)

    def take(self):
        slot = self.posted.popleft()
        for work in slot.work:
            work.wait()
        return slot

    def give_back(self, slot):
        slot.work = None
        self.slots.append(slot)

    def send(self, tensor, max_outstanding=2):
        op = dist.P2POp(dist.isend, tensor, dist.get_global_rank(self.group, self.rank + 1), self.group)
        self.sends.append((tensor, dist.batch_isend_irecv([op])))
        while len(self.sends) > max_outstanding:
            self._retire()

    def _retire(self):
        tensor, works = self.sends.popleft()
        for work in works:
            work.wait()
        del tensor

    def flush(self):
        while self.sends:
            self._retire()


class PipelineStage:
    def __init__(self, module, comm):
        self.module = module
        self.comm = comm

    @torch.no_grad()
    def run(self, microbatches):
        comm = self.comm
        total = len(microbatches)
        outputs = []
        posted = 0
        if not comm.is_first:
            while posted < total and comm.slots:
                comm.post_recv()
                posted += 1
        for i in range(total):
            if comm.is_first:
                x, slot = microbatches[i].to("cuda", non_blocking=True), None
            else:
                slot = comm.take()
                x = slot.buffer
            y = self.module(x)
            if slot is not None:
                comm.give_back(slot)
                if posted < total:
                    comm.post_recv()
                    posted += 1
            if comm.is_last:
                outputs.append(y)
            else:
                comm.send(y)
        comm.flush()
        return outputs


def main(batch=64, width=2048, micro=16, layers_per_stage=6):
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    layers = []
    for _ in range(layers_per_stage):
        layers += [nn.Linear(width, width), nn.GELU()]
    module = nn.Sequential(*layers).cuda()
    stage = PipelineStage(module, StageComm((batch, width), torch.float32, dist.group.WORLD))
    for _ in range(4):
        data = [torch.randn(batch, width).pin_memory() for _ in range(micro)]
        outputs = stage.run(data)
        if outputs:
            print(torch.stack(outputs).square().mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
