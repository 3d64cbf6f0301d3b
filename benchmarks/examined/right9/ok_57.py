import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


@dataclass
class HookState:
    group: dist.ProcessGroup
    sent: int = 0


def bf16_hook(state, bucket):
    """Averages a gradient bucket in bfloat16."""
    world = state.group.size()
    packed = bucket.buffer().to(torch.bfloat16).div_(world)
    state.sent += packed.numel() * packed.element_size()
    work = dist.all_reduce(packed, group=state.group, async_op=True)

    def unpack(fut):
        out = bucket.buffer()
        out.copy_(fut.value()[0])
        return out

    return work.get_future().then(unpack)


def main():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).cuda()
    ddp = DistributedDataParallel(model, device_ids=[local], gradient_as_bucket_view=True)
    state = HookState(dist.group.WORLD)
    ddp.register_comm_hook(state, bf16_hook)
    opt = torch.optim.SGD(ddp.parameters(), lr=0.05)
    for step in range(100):
        x = torch.randn(64, 512, device="cuda")
        loss = (ddp(x) - x).square().mean()
        opt.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
        opt.step()
        if step % 20 == 0 and local == 0:
            print(step, loss.item(), norm.item(), state.sent)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
