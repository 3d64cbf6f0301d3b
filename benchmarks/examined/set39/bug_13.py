"""Asynchronous gradient averaging through a CPU collective run by a background thread."""
import os
import queue
import threading

import torch
import torch.distributed as dist


class Request:
    def __init__(self, name, tensor, host):
        self.name = name
        self.tensor = tensor
        self.host = host
        self.done = threading.Event()


class BackgroundLoop(threading.Thread):
    def __init__(self, group):
        super().__init__(name="collectives", daemon=True)
        self.group = group
        self.world = dist.get_world_size(group)
        self.table = queue.Queue()
        self.start()

    def enqueue(self, request):
        self.table.put(request)

    def run(self):
        while True:
            request = self.table.get()
            if request is None:
                break
            dist.all_reduce(request.host, group=self.group)
            request.host.div_(self.world)
            request.done.set()

    def shutdown(self):
        self.table.put(None)
        self.join()


class HandleManager:
    def __init__(self, loop):
        self.loop = loop
        self.handles = {}
        self.next_id = 0

    def allreduce_async(self, tensor, name):
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        host.copy_(tensor, non_blocking=True)
        request = Request(name, tensor, host)
        handle = self.next_id
        self.next_id += 1
        self.handles[handle] = request
        self.loop.enqueue(request)
        return handle

    def synchronize(self, handle):
        request = self.handles.pop(handle)
        request.done.wait()
        request.tensor.copy_(request.host)
        return request.tensor


class DistributedOptimizer:
    def __init__(self, optimizer, named_parameters, manager):
        self.optimizer = optimizer
        self.manager = manager
        self.pending = []
        for name, p in named_parameters:
            p.register_post_accumulate_grad_hook(self._hook(name))

    def _hook(self, name):
        def fire(p):
            self.pending.append(self.manager.allreduce_async(p.grad, name))

        return fire

    def step(self):
        for handle in self.pending:
            self.manager.synchronize(handle)
        self.pending.clear()
        self.optimizer.step()
        self.optimizer.zero_grad()


def main():
    dist.init_process_group("gloo")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    net = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(6)]).cuda()
    loop = BackgroundLoop(dist.group.WORLD)
    sgd = torch.optim.SGD(net.parameters(), lr=1e-2)
    opt = DistributedOptimizer(sgd, net.named_parameters(), HandleManager(loop))
    for _ in range(10):
        loss = net(torch.randn(512, 2048, device="cuda")).square().mean()
        loss.backward()
        opt.step()
    print(loss.item())
    loop.shutdown()


if __name__ == "__main__":
    main()
