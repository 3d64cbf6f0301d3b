"""All gradients averaged on CPU with gloo, then sent back."""
import torch
import torch.distributed as dist
from torch import nn


class HostAllReduce:
    def __init__(self, params):
        self.params = list(params)
        total = sum(p.numel() for p in self.params)
        self.host = torch.empty(total, pin_memory=True)
        self.dev = torch.empty(total, device="cuda")
        self.back = torch.cuda.Event()

    def reduce(self):
        torch.cat([p.grad.flatten() for p in self.params], out=self.dev)
        self.back.synchronize()
        self.host.copy_(self.dev, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        work = dist.all_reduce(self.host, async_op=True)
        work.wait()
        self.host.div_(dist.get_world_size())
        self.dev.copy_(self.host, non_blocking=True)
        self.back.record()
        off = 0
        for p in self.params:
            p.grad.copy_(self.dev[off:off + p.numel()].view_as(p))
            off += p.numel()


def main():
    dist.init_process_group("gloo")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()
    sync = HostAllReduce(model.parameters())
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        model(torch.randn(32, 256, device="cuda")).square().mean().backward()
        sync.reduce()
        opt.step()
        opt.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
