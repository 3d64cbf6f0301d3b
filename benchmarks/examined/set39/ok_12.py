"""Gradient bucketing with overlapped communication and per-buffer release events."""
import os

import torch
import torch.distributed as dist


class OverlappedReducer:
    def __init__(self, params, bucket_size, group):
        self.group = group
        self.world = dist.get_world_size(group)
        self.params = list(params)
        self.buffers = [torch.empty(bucket_size, device="cuda") for _ in range(2)]
        self.drained = [torch.cuda.Event() for _ in range(2)]
        self.reduced = {p: torch.zeros_like(p) for p in self.params}
        self.stream = torch.cuda.Stream()
        self.index = 0
        self.fill = 0
        self.entries = []
        for p in self.params:
            p.register_post_accumulate_grad_hook(self.add)

    def begin(self):
        torch.cuda.current_stream().wait_event(self.drained[self.index])

    def add(self, p):
        n = p.numel()
        if self.fill + n > self.buffers[0].numel():
            self.flush()
        if self.fill == 0:
            self.begin()
        self.buffers[self.index][self.fill:self.fill + n].copy_(p.grad.view(-1))
        self.entries.append((p, self.fill, n))
        self.fill += n
        p.grad = None

    def flush(self):
        if not self.entries:
            return
        flat = self.buffers[self.index][:self.fill]
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            flat.div_(self.world)
            dist.all_reduce(flat, group=self.group)
            for p, start, n in self.entries:
                self.reduced[p].copy_(flat[start:start + n].view_as(p))
            self.drained[self.index].record()
        self.index ^= 1
        self.fill = 0
        self.entries = []

    @torch.no_grad()
    def step(self, lr):
        self.flush()
        torch.cuda.current_stream().wait_stream(self.stream)
        for p in self.params:
            p.add_(self.reduced[p], alpha=-lr)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    net = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(16)]).cuda()
    reducer = OverlappedReducer(net.parameters(), 3 << 20, dist.group.WORLD)
    for _ in range(10):
        loss = net(torch.randn(256, 1024, device="cuda")).square().mean()
        loss.backward()
        reducer.step(lr=1e-2)
    print(loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
