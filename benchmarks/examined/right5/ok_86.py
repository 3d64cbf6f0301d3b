import torch
import torch.distributed as dist
from torch import nn


class HostStagedAllReduce:
    """Reduces over a Gloo group through pinned memory, in two alternating halves."""

    def __init__(self, numel: int, group):
        self.group = group
        self.world = dist.get_world_size(group)
        self.half = (numel + 1) // 2
        self.host = [torch.zeros(self.half, pin_memory=True) for _ in range(2)]
        self.stream = torch.cuda.Stream()

    @torch.no_grad()
    def __call__(self, flat: torch.Tensor) -> None:
        parts = flat.split(self.half)
        self.stream.wait_stream(torch.cuda.current_stream())
        copied = []
        with torch.cuda.stream(self.stream):
            for host, part in zip(self.host, parts):
                host[:part.numel()].copy_(part, non_blocking=True)
                copied.append(self.stream.record_event())
        works = []
        for host, part, event in zip(self.host, parts, copied):
            event.synchronize()
            works.append(dist.all_reduce(host[:part.numel()], group=self.group, async_op=True))
        with torch.cuda.stream(self.stream):
            for host, part, work in zip(self.host, parts, works):
                work.wait()
                part.copy_(host[:part.numel()], non_blocking=True)
                part.div_(self.world)
        self.stream.synchronize()


def main():
    dist.init_process_group("gloo")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    net = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).cuda()
    params = list(net.parameters())
    reduce = HostStagedAllReduce(sum(p.numel() for p in params), dist.group.WORLD)
    opt = torch.optim.SGD(params, lr=0.01)
    for _ in range(20):
        net(torch.randn(64, 512, device="cuda")).square().mean().backward()
        flat = torch.cat([p.grad.reshape(-1) for p in params])
        reduce(flat)
        for p, g in zip(params, flat.split([p.numel() for p in params])):
            p.grad.copy_(g.view_as(p))
        opt.step()
        opt.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
