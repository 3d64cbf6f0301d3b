"""Decentralised averaging: a background thread runs the neighbour exchange for queued tensors."""
import os
import queue
import threading

import torch
import torch.distributed as dist


class Handle:
    def __init__(self):
        self._submitted = threading.Event()
        self.output = None
        self.event = None

    def complete(self, output, event):
        self.output, self.event = output, event
        self._submitted.set()

    def synchronize(self):
        self._submitted.wait()
        torch.cuda.current_stream().wait_event(self.event)
        self.output.record_stream(torch.cuda.current_stream())
        return self.output


class BackgroundLoop(threading.Thread):
    """Owns the communicator and a stream; entries are processed in submission order."""

    def __init__(self, device, group=None):
        super().__init__(daemon=True)
        self.device = device
        self.group = group
        self.rank = dist.get_rank(group)
        self.world = dist.get_world_size(group)
        self.tensor_queue = queue.Queue()

    def submit(self, tensor):
        handle = Handle()
        self.tensor_queue.put((tensor, handle))
        return handle

    def _neighbors(self):
        return (self.rank - 1) % self.world, (self.rank + 1) % self.world

    def run(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(self.device)
        left, right = self._neighbors()
        with torch.cuda.stream(stream):
            while True:
                entry = self.tensor_queue.get()
                if entry is None:
                    return
                tensor, handle = entry
                output = torch.empty((2, *tensor.shape), dtype=tensor.dtype, device=self.device)
                ops = [
                    dist.P2POp(dist.isend, tensor, right, self.group),
                    dist.P2POp(dist.irecv, output[0], left, self.group),
                    dist.P2POp(dist.isend, tensor, left, self.group),
                    dist.P2POp(dist.irecv, output[1], right, self.group),
                ]
                for work in dist.batch_isend_irecv(ops):
                    work.wait()
                tensor.record_stream(stream)
                handle.complete(output, stream.record_event())

    def shutdown(self):
        self.tensor_queue.put(None)
        self.join()


class NeighborAveragingOptimizer:
    """Adapt-then-combine: local step, then average parameters with both neighbours."""

    def __init__(self, optimizer, loop):
        self.optimizer = optimizer
        self.loop = loop

    @torch.no_grad()
    def step(self):
        self.optimizer.step()
        handles = []
        for group in self.optimizer.param_groups:
            for p in group["params"]:
                handles.append((p, self.loop.submit(p.detach().clone())))
        for p, handle in handles:
            received = handle.synchronize()
            p.add_(received.sum(0)).div_(3.0)

    def zero_grad(self):
        self.optimizer.zero_grad(set_to_none=True)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    loop = BackgroundLoop(torch.device("cuda", local_rank))
    loop.start()
    model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    opt = NeighborAveragingOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), loop)
    for _ in range(100):
        x = torch.randn(256, 2048, device="cuda")
        loss = (model(x) - x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    loop.shutdown()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
