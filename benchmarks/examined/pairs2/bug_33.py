"""Averages gradients over a gloo group through host buffers."""
import torch
import torch.distributed as dist
import torch.nn as nn


class HostAveragedGradients:
    def __init__(self, module, group):
        self.group = group
        self.world = dist.get_world_size(group)
        self.params = [p for p in module.parameters() if p.requires_grad]
        self.host = [torch.empty(p.shape, pin_memory=True) for p in self.params]
        self.stream = torch.cuda.Stream()

    def __call__(self):
        main = torch.cuda.current_stream()
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):
            for p, h in zip(self.params, self.host):
                h.copy_(p.grad, non_blocking=True)
        self.stream.synchronize()
        works = [dist.all_reduce(h, group=self.group, async_op=True) for h in self.host]
        with torch.cuda.stream(self.stream):
            for p, h in zip(self.params, self.host):
                p.grad.copy_(h, non_blocking=True)
                p.grad.div_(self.world)
        for work in works:
            work.wait()
        main.wait_stream(self.stream)
        self.stream.synchronize()


def main():
    dist.init_process_group("gloo")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    model = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 10)).cuda()
    average = HostAveragedGradients(model, dist.group.WORLD)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(300):
        x = torch.randn(128, 1024, device="cuda")
        opt.zero_grad(set_to_none=False)
        model(x).logsumexp(-1).mean().backward()
        average()
        opt.step()


main()
