"""Asynchronous gradient averaging; the worker also uploads the averaged result."""
import os
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist


class Averager:
    def __init__(self, group, device):
        self.group = group
        self.device = device
        self.world = dist.get_world_size(group)
        self.upload = torch.cuda.Stream(device)
        self.pool = ThreadPoolExecutor(max_workers=1)

    def submit(self, grad):
        host = torch.empty(grad.shape, dtype=grad.dtype, pin_memory=True)
        host.copy_(grad, non_blocking=True)
        ready = torch.cuda.current_stream(self.device).record_event()
        return self.pool.submit(self._work, grad, host, ready)

    def _work(self, grad, host, ready):
        torch.cuda.set_device(self.device)
        ready.synchronize()
        dist.all_reduce(host, group=self.group)
        host.div_(self.world)
        with torch.cuda.stream(self.upload):
            grad.copy_(host, non_blocking=True)
        return self.upload.record_event()


class DistributedOptimizer:
    def __init__(self, optimizer, params, averager):
        self.optimizer = optimizer
        self.averager = averager
        self.futures = []
        for p in params:
            p.register_post_accumulate_grad_hook(self._hook)

    def _hook(self, p):
        self.futures.append(self.averager.submit(p.grad))

    def step(self):
        stream = torch.cuda.current_stream()
        for future in self.futures:
            stream.wait_event(future.result())
        self.futures.clear()
        self.optimizer.step()
        self.optimizer.zero_grad()


def main():
    dist.init_process_group("gloo")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    net = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(6)]).to(device)
    sgd = torch.optim.SGD(net.parameters(), lr=1e-2)
    opt = DistributedOptimizer(sgd, net.parameters(), Averager(dist.group.WORLD, device))
    for _ in range(10):
        loss = net(torch.randn(512, 2048, device=device)).square().mean()
        loss.backward()
        opt.step()
    print(loss.item())


if __name__ == "__main__":
    main()
