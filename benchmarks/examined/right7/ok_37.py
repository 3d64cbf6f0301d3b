"""Two-bucket gradient reduction on its own stream."""
import torch
import torch.distributed as dist
from torch import nn


class IpgBuckets:
    def __init__(self, numel: int):
        self.buffers = [torch.empty(numel, device="cuda") for _ in range(2)]
        self.done = [torch.cuda.Event() for _ in range(2)]
        self.index, self.used, self.items = 0, 0, []
        self.stream = torch.cuda.Stream()

    def room(self, n):
        return self.used + n <= self.buffers[self.index].numel()

    def append(self, p):
        n = p.grad.numel()
        if not self.room(n):
            self.flush()
        if self.used == 0:
            torch.cuda.current_stream().wait_event(self.done[self.index])
        view = self.buffers[self.index][self.used:self.used + n]
        view.copy_(p.grad.view(-1))
        self.items.append((p, view.view_as(p)))
        self.used += n

    def flush(self):
        if not self.items:
            return
        payload = self.buffers[self.index][: self.used]
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            dist.all_reduce(payload, op=dist.ReduceOp.AVG)
            for p, view in self.items:
                p.grad.copy_(view)
                p.grad.record_stream(self.stream)
            self.done[self.index].record()
        self.index, self.used, self.items = 1 - self.index, 0, []

    def wait(self):
        self.flush()
        torch.cuda.current_stream().wait_stream(self.stream)


class Zero1:
    def __init__(self, model: nn.Module, opt):
        largest = max(p.numel() for p in model.parameters())
        self.ipg = IpgBuckets(max(largest, 1 << 20))
        self.opt = opt
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(self.ipg.append)

    def step(self):
        self.ipg.wait()
        self.opt.step()
        self.opt.zero_grad()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    model = nn.Sequential(*[nn.Linear(768, 768) for _ in range(6)]).cuda()
    engine = Zero1(model, torch.optim.AdamW(model.parameters()))
    for _ in range(10):
        model(torch.randn(32, 768, device="cuda")).square().mean().backward()
        engine.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
