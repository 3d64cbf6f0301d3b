import torch
import torch.distributed as dist
from torch import nn


class GradBucket:
    def __init__(self, params, group=None):
        self.params = list(params)
        self.flat = torch.zeros(sum(p.numel() for p in self.params), device="cuda")
        self.offsets = {}
        start = 0
        for p in self.params:
            self.offsets[p] = start
            start += p.numel()
        self.pending = len(self.params)
        self.comm_stream = torch.cuda.Stream()
        for p in self.params:
            p.register_hook(self._make_hook(p))

    def _make_hook(self, param):
        def hook(grad):
            start = self.offsets[param]
            self.flat[start:start + param.numel()].copy_(grad.reshape(-1))
            self.pending -= 1
            if self.pending == 0:
                self._launch()
            return None

        return hook

    def _launch(self):
        self.comm_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.comm_stream):
            dist.all_reduce(self.flat)
            self.flat.div_(dist.get_world_size())

    def finish(self):
        torch.cuda.current_stream().wait_stream(self.comm_stream)
        for p in self.params:
            start = self.offsets[p]
            p.grad = self.flat[start:start + p.numel()].view_as(p).clone()
        self.pending = len(self.params)


class TwoBranch(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.left = nn.Linear(width, width, bias=False)
        self.right = nn.Linear(width, width, bias=False)
        self.side = torch.cuda.Stream()

    def forward(self, x):
        main = torch.cuda.current_stream()
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            b = self.right(x)
            x.record_stream(self.side)
        a = self.left(x)
        main.wait_stream(self.side)
        b.record_stream(main)
        return a, b


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    model = TwoBranch(4096).cuda()
    bucket = GradBucket(model.parameters())
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(10):
        x = torch.randn(64, 4096, device="cuda")
        a, b = model(x)
        (a + b).square().mean().backward()
        bucket.finish()
        opt.step()
        opt.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
