"""Data parallel optimizer: each rank updates a slice, gathers overlap with compute."""
from collections import deque

import torch
import torch.distributed as dist


class ShardedMomentum(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.95, depth=3):
        super().__init__(list(params), dict(lr=lr, momentum=momentum))
        self.world = dist.get_world_size()
        self.rank = dist.get_rank()
        self.depth = depth

    def _own_update(self, p, group):
        state = self.state[p]
        if "buf" not in state:
            state["buf"] = torch.zeros_like(p.grad)
        state["buf"].mul_(group["momentum"]).add_(p.grad)
        return p.add(state["buf"], alpha=-group["lr"])

    def _unpack(self, entry):
        work, chunk, flat, _ = entry
        work.wait()
        for p, value in zip(chunk, flat):
            p.copy_(value)

    @torch.no_grad()
    def step(self):
        queue = deque()
        for group in self.param_groups:
            params = group["params"]
            for base in range(0, len(params), self.world):
                chunk = params[base:base + self.world]
                own = chunk[min(self.rank, len(chunk) - 1)]
                new = self._own_update(own, group).unsqueeze(0)
                flat = new.new_empty(self.world, *own.shape)
                work = dist.all_gather_into_tensor(flat, new, async_op=True)
                queue.append((work, chunk, flat, new))
                if len(queue) > self.depth:
                    self._unpack(queue.popleft())
        while queue:
            self._unpack(queue.popleft())


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    layers = [torch.nn.Linear(2048, 2048, bias=False) for _ in range(12)]
    model = torch.nn.Sequential(*layers).cuda()
    opt = ShardedMomentum(model.parameters())
    for _ in range(10):
        model(torch.randn(32, 2048, device="cuda")).square().mean().backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
