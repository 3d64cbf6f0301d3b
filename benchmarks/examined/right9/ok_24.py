import os
from collections import deque

import torch
import torch.distributed as dist


class Zero1:
    """Each rank owns one slice of every flat parameter group."""

    def __init__(self, flats, lr=0.1, max_inflight=2):
        self.flats = flats
        self.world = dist.get_world_size()
        self.rank = dist.get_rank()
        self.lr = lr
        self.max_inflight = max_inflight

    def _own(self, flat):
        n = flat.numel() // self.world
        return flat.narrow(0, self.rank * n, n)

    def _update(self, work, flat, grad, shard):
        work.wait()
        own = self._own(flat)
        own.sub_(shard, alpha=self.lr / self.world)
        mine = own.clone()
        return dist.all_gather_into_tensor(flat, mine, async_op=True), mine

    def step(self, grads):
        inflight = deque()
        gathers = []
        for flat, grad in zip(self.flats, grads):
            shard = torch.empty(grad.numel() // self.world, device=grad.device)
            work = dist.reduce_scatter_tensor(shard, grad, async_op=True)
            inflight.append((work, flat, grad, shard))
            if len(inflight) == self.max_inflight:
                gathers.append(self._update(*inflight.popleft()))
        while inflight:
            gathers.append(self._update(*inflight.popleft()))
        for work, _ in gathers:
            work.wait()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    dim, depth = 1024, 6
    flats = [torch.randn(dim * dim, device="cuda").mul_(0.03) for _ in range(depth)]
    zero = Zero1(flats)
    torch.manual_seed(100 + dist.get_rank())
    for step in range(20):
        leaves = [f.detach().requires_grad_() for f in flats]
        h = torch.randn(32, dim, device="cuda")
        for leaf in leaves:
            h = torch.tanh(h @ leaf.view(dim, dim))
        loss = h.square().mean()
        zero.step(list(torch.autograd.grad(loss, leaves)))
        if dist.get_rank() == 0:
            print(step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
