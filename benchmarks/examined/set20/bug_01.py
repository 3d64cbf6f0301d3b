"""Background all-reduce engine for data parallel training."""
import queue
import threading

import cupy.cuda.nccl as nccl
import torch
import torch.nn as nn
import torch.nn.functional as F


class TensorTableEntry:
    def __init__(self, name, tensor):
        self.name = name
        self.tensor = tensor
        self.finished = threading.Event()
        self.done_event = torch.cuda.Event()


class CollectiveEngine:
    def __init__(self, rank, size, comm_id, fusion_numel=1 << 24):
        self.size = size
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.comm = nccl.NcclCommunicator(size, comm_id, rank)
        self.stream = torch.cuda.Stream(device=self.device)
        with torch.cuda.stream(self.stream):
            self.fusion_buffer = torch.empty(fusion_numel, device=self.device)
        self.tensor_queue = queue.Queue()
        self.thread = threading.Thread(target=self._background_loop, daemon=True)
        self.thread.start()

    def enqueue(self, name, tensor):
        entry = TensorTableEntry(name, tensor)
        self.tensor_queue.put(entry)
        return entry

    def _background_loop(self):
        torch.cuda.set_device(self.device)
        while True:
            entry = self.tensor_queue.get()
            if entry is None:
                return
            self._perform_allreduce(entry)

    def _perform_allreduce(self, entry):
        flat = entry.tensor.view(-1)
        n = flat.numel()
        with torch.cuda.stream(self.stream):
            buf = self.fusion_buffer[:n]
            buf.copy_(flat)
            self.comm.allReduce(
                buf.data_ptr(), buf.data_ptr(), n,
                nccl.NCCL_FLOAT, nccl.NCCL_SUM, self.stream.cuda_stream,
            )
            flat.copy_(buf)
            flat.div_(self.size)
            entry.done_event.record(self.stream)
        entry.finished.set()

    def shutdown(self):
        self.tensor_queue.put(None)
        self.thread.join()


class DistributedOptimizer:
    def __init__(self, optimizer, named_parameters, engine):
        self.optimizer = optimizer
        self.engine = engine
        self.handles = {}
        for name, p in named_parameters:
            p.register_post_accumulate_grad_hook(self._make_hook(name))

    def _make_hook(self, name):
        def hook(p):
            self.handles[p] = self.engine.enqueue("allreduce." + name, p.grad)
        return hook

    def synchronize(self):
        for p, entry in self.handles.items():
            entry.finished.wait()
            torch.cuda.current_stream().wait_event(entry.done_event)
        self.handles.clear()

    def step(self):
        self.synchronize()
        self.optimizer.step()

    def zero_grad(self):
        self.optimizer.zero_grad(set_to_none=False)


def train(rank, size, comm_id, loader):
    torch.cuda.set_device(rank)
    model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 10)).cuda()
    engine = CollectiveEngine(rank, size, comm_id)
    opt = DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01), model.named_parameters(), engine
    )
    for data, target in loader:
        data, target = data.cuda(), target.cuda()
        opt.zero_grad()
        loss = F.cross_entropy(model(data), target)
        loss.backward()
        opt.step()
    engine.shutdown()
