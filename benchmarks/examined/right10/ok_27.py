"""DDP communication hook: half precision all-reduce chained through futures."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class CompressState:
    def __init__(self, group):
        self.group = group
        self.seen = 0


def bf16_average(state: CompressState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    world = state.group.size()
    state.seen += 1
    small = bucket.buffer().to(torch.bfloat16).div_(world)
    fut = dist.all_reduce(small, group=state.group, async_op=True).get_future()

    def widen(f):
        full = bucket.buffer()
        full.copy_(f.value()[0])
        return full

    return fut.then(widen)


def main():
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    dist.init_process_group("nccl")
    net = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 1024), nn.ReLU()) for _ in range(10)]).cuda()
    ddp = DDP(net, device_ids=[local], gradient_as_bucket_view=True)
    state = CompressState(dist.group.WORLD)
    ddp.register_comm_hook(state, bf16_average)
    opt = torch.optim.SGD(ddp.parameters(), lr=1e-2)
    for step in range(50):
        x = torch.randn(64, 1024, device="cuda")
        loss = ddp(x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=False)
        if step % 10 == 0 and local == 0:
            print(step, loss.item(), state.seen)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
