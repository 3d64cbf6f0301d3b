import queue
import threading
import time

import torch
import torch.distributed as dist


class Microbatch:

    def __init__(self, index, shape, dtype, device):
        self.index = index
        self.buffer = torch.empty(shape, dtype=dtype, device=device)
        self.work = None


class StageReceiver(threading.Thread):
    """Receives activations of the previous stage."""

    def __init__(self, src, num_microbatches, shape, dtype, device, group, ready):
        super().__init__(daemon=True)
        self.src = src
        self.num_microbatches = num_microbatches
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.group = group
        self.ready = ready
        self.in_flight = []

    def run(self):
        torch.cuda.set_device(self.device)
        for i in range(self.num_microbatches):
            mb = Microbatch(i, self.shape, self.dtype, self.device)
            mb.work = dist.irecv(mb.buffer, src=self.src, group=self.group)
            self.in_flight.append(mb)
            while not mb.work.is_completed():
                time.sleep(0)
            self.ready.put(mb)
        self.ready.put(None)


class PipelineStage:

    def __init__(self, module, rank, world_size, shape, dtype, device, group=None):
        self.module = module
        self.rank = rank
        self.world_size = world_size
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.group = group
        self.sends = []

    def _inputs(self, microbatches):
        if self.rank == 0:
            yield from microbatches
            return
        ready = queue.Queue()
        receiver = StageReceiver(self.rank - 1, len(microbatches), self.shape, self.dtype,
                                 self.device, self.group, ready)
        receiver.start()
        while True:
            mb = ready.get()
            if mb is None:
                break
            yield mb.buffer
        receiver.join()

    @torch.no_grad()
    def run(self, microbatches):
        outputs = []
        for x in self._inputs(microbatches):
            y = self.module(x)
            if self.rank + 1 < self.world_size:
                self.sends.append((dist.isend(y, dst=self.rank + 1, group=self.group), y))
            else:
                outputs.append(y)
        for work, _ in self.sends:
            work.wait()
        self.sends.clear()
        torch.cuda.synchronize(self.device)
        return outputs
