"""DDP communication hook: half-precision gradients with an error-feedback residual."""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class CompressionState:
    def __init__(self, group=None, dtype=torch.bfloat16):
        self.group = group or dist.group.WORLD
        self.world = dist.get_world_size(self.group)
        self.dtype = dtype
        self.residual = {}
        self.bytes_sent = 0

    def residual_for(self, bucket):
        buf = bucket.buffer()
        index = bucket.index()
        res = self.residual.get(index)
        if res is None or res.numel() != buf.numel():
            res = torch.zeros_like(buf)
            self.residual[index] = res
        return res


def compressed_allreduce_hook(state, bucket):
    """Sends buffer + residual in low precision; the rounding error stays for the next step."""
    buf = bucket.buffer()
    residual = state.residual_for(bucket)
    buf.add_(residual)
    packed = buf.to(state.dtype)
    torch.sub(buf, packed, out=residual)
    packed.div_(state.world)
    state.bytes_sent += packed.numel() * packed.element_size()
    work = dist.all_reduce(packed, group=state.group, async_op=True)

    def unpack(fut):
        buf.copy_(fut.value()[0])
        return buf

    return work.get_future().then(unpack)


class Net(torch.nn.Module):
    def __init__(self, dim=1024, depth=12):
        super().__init__()
        self.inp = torch.nn.Linear(dim, dim)
        self.blocks = torch.nn.ModuleList(
            torch.nn.Sequential(
                torch.nn.LayerNorm(dim), torch.nn.Linear(dim, dim), torch.nn.GELU()
            )
            for _ in range(depth)
        )
        self.out = torch.nn.Linear(dim, 1)

    def forward(self, x):
        x = self.inp(x)
        for block in self.blocks:
            x = x + block(x)
        return self.out(x).squeeze(-1)


def train(steps=200, batch=512, dim=1024):
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    torch.manual_seed(0)
    model = DDP(Net(dim).cuda(), device_ids=[local_rank], gradient_as_bucket_view=True)
    state = CompressionState()
    model.register_comm_hook(state, compressed_allreduce_hook)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    gen = torch.Generator(device="cuda").manual_seed(dist.get_rank())
    track = torch.zeros((), device="cuda")
    for _ in range(steps):
        x = torch.randn(batch, dim, device="cuda", generator=gen)
        loss = torch.nn.functional.mse_loss(model(x), x.sum(-1).sign())
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        track.lerp_(loss.detach(), 0.05)
    if dist.get_rank() == 0:
        print(track.item(), state.bytes_sent)
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
