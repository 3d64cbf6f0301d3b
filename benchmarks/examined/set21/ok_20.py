from typing import List, Optional

import torch
import torch.distributed as dist
import torch.nn as nn


class StageComm:
    """Forward-only pipeline exchange with two activation buffers in each direction."""

    def __init__(self, shape, device: torch.device, group: dist.ProcessGroup):
        self.group = group
        self.rank = dist.get_rank(group)
        self.world = dist.get_world_size(group)
        self.recv_buffers = [torch.empty(shape, device=device) for _ in range(2)]
        self.send_buffers = [torch.empty(shape, device=device) for _ in range(2)]
        self.send_works: List[Optional[dist.Work]] = [None, None]
        self.recv_works: List[Optional[dist.Work]] = [None, None]

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    @property
    def is_last(self) -> bool:
        return self.rank == self.world - 1

    def post_recv(self, mb: int) -> None:
        if not self.is_first:
            slot = mb % 2
            self.recv_works[slot] = dist.irecv(self.recv_buffers[slot], src=self.rank - 1, group=self.group)

    def wait_recv(self, mb: int) -> torch.Tensor:
        slot = mb % 2
        self.recv_works[slot].wait()
        self.recv_works[slot] = None
        return self.recv_buffers[slot]

    def send(self, mb: int, activation: torch.Tensor) -> None:
        if self.is_last:
            return
        slot = mb % 2
        if self.send_works[slot] is not None:
            self.send_works[slot].wait()
        self.send_buffers[slot].copy_(activation)
        self.send_works[slot] = dist.isend(self.send_buffers[slot], dst=self.rank + 1, group=self.group)

    def finish(self) -> None:
        for slot, work in enumerate(self.send_works):
            if work is not None:
                work.wait()
                self.send_works[slot] = None


class PipelineStage:
    def __init__(self, module: nn.Module, micro_shape, group: dist.ProcessGroup):
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.module = module.to(self.device).eval()
        self.comm = StageComm(micro_shape, self.device, group)

    @torch.inference_mode()
    def run(self, microbatches: Optional[List[torch.Tensor]], num_microbatches: int) -> List[torch.Tensor]:
        outputs = []
        self.comm.post_recv(0)
        for mb in range(num_microbatches):
            if self.comm.is_first:
                x = microbatches[mb].pin_memory().to(self.device, non_blocking=True)
            else:
                x = self.comm.wait_recv(mb)
                if mb + 1 < num_microbatches:
                    self.comm.post_recv(mb + 1)
            y = self.module(x)
            if self.comm.is_last:
                outputs.append(y)
            else:
                self.comm.send(mb, y)
        self.comm.finish()
        return [o.cpu() for o in outputs]


def main(dim: int = 4096, micro: int = 256, num_microbatches: int = 16) -> float:
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    module = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim))
    stage = PipelineStage(module, (micro, dim), dist.group.WORLD)
    data = [torch.randn(micro, dim) for _ in range(num_microbatches)] if dist.get_rank() == 0 else None
    outputs = stage.run(data, num_microbatches)
    return float(sum(o.abs().mean() for o in outputs)) if outputs else 0.0
