from typing import List, Optional

import torch
import torch.distributed as dist
import torch.nn as nn


class Manager:
    """Averages tensors over the replicas that take part in the step."""

    def __init__(self, pg: dist.ProcessGroup):
        self._pg = pg
        self._participants = dist.get_world_size(pg)

    def num_participants(self) -> int:
        return self._participants

    def allreduce(self, tensor: torch.Tensor) -> dist.Work:
        work = dist.all_reduce(tensor, op=dist.ReduceOp.SUM, group=self._pg, async_op=True)
        tensor.div_(self.num_participants())
        return work


class StreamingDiLoCoFragment:
    def __init__(self, manager: Manager, fragment: nn.Module, outer_lr: float):
        self.manager = manager
        self.params: List[nn.Parameter] = list(fragment.parameters())
        self.outer_lr = outer_lr
        self.global_params = [p.detach().clone() for p in self.params]
        numel = sum(p.numel() for p in self.params)
        self.bucket = torch.zeros(numel, device=self.params[0].device)
        self.stream = torch.cuda.Stream()
        self.work: Optional[dist.Work] = None

    @torch.no_grad()
    def prepare_sync(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        offset = 0
        pseudograds = [g - p.detach() for g, p in zip(self.global_params, self.params)]
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for grad in pseudograds:
                self.bucket[offset:offset + grad.numel()].copy_(grad.view(-1))
                grad.record_stream(self.stream)
                offset += grad.numel()
            self.work = self.manager.allreduce(self.bucket)

    @torch.no_grad()
    def perform_sync(self) -> None:
        with torch.cuda.stream(self.stream):
            self.work.wait()
        torch.cuda.current_stream().wait_stream(self.stream)
        offset = 0
        for g, p in zip(self.global_params, self.params):
            update = self.bucket[offset:offset + g.numel()].view_as(g)
            g.sub_(update, alpha=self.outer_lr)
            p.copy_(g)
            offset += g.numel()
        self.work = None


class DiLoCo:
    def __init__(self, manager: Manager, fragments: List[nn.Module], sync_every: int, delay: int, outer_lr: float = 0.7):
        self.sync_every = sync_every
        self.delay = delay
        self.fragments = [StreamingDiLoCoFragment(manager, f, outer_lr) for f in fragments]
        self.local_step = 0
        self.index = 0

    def step_post_hook(self) -> None:
        self.local_step += 1
        phase = self.local_step % self.sync_every
        if phase == self.sync_every - self.delay:
            self.fragments[self.index].prepare_sync()
        elif phase == 0:
            self.fragments[self.index].perform_sync()
            self.index = (self.index + 1) % len(self.fragments)


def train(steps: int = 400, dim: int = 2048) -> float:
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    blocks = [nn.Sequential(nn.Linear(dim, dim), nn.GELU()).cuda() for _ in range(4)]
    model = nn.Sequential(*blocks)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4)
    diloco = DiLoCo(Manager(dist.group.WORLD), blocks, sync_every=20, delay=5)
    total = torch.zeros((), device="cuda")
    for _ in range(steps):
        loss = model(torch.randn(64, dim, device="cuda")).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        diloco.step_post_hook()
        total += loss.detach()
    return total.item() / steps
