"""CPU optimizer overlapped with backward: gradients pass through a ring of pinned slots."""
import queue
import threading
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class TransferSlot:
    tensor: torch.Tensor
    event: torch.cuda.Event


@dataclass
class CopyTask:
    index: int
    numel: int
    slot: TransferSlot


class CpuGradientOffloader:
    """Copies finished gradients out on a D2H stream; a worker folds them into float32 masters."""

    def __init__(self, params, device, num_slots=4):
        self.params = list(params)
        self.device = device
        self.masters = [p.detach().float().cpu().clone() for p in self.params]
        self.momenta = [torch.zeros_like(m) for m in self.masters]
        self.accum = [torch.zeros_like(m).reshape(-1) for m in self.masters]
        self.staging = [torch.empty(p.shape, dtype=p.dtype, pin_memory=True) for p in self.params]
        largest = max(p.numel() for p in self.params)
        self.free = queue.Queue()
        for _ in range(num_slots):
            tensor = torch.empty(largest, dtype=self.params[0].dtype, pin_memory=True)
            self.free.put(TransferSlot(tensor, torch.cuda.Event()))
        self.tasks = queue.Queue()
        self.d2h_stream = torch.cuda.Stream(device=device)
        self.worker = threading.Thread(target=self._drain, daemon=True)
        self.worker.start()
        for i, p in enumerate(self.params):
            p.register_post_accumulate_grad_hook(self._make_hook(i))

    def _make_hook(self, index):
        def hook(param):
            grad = param.grad.reshape(-1)
            ready = torch.cuda.Event()
            ready.record(torch.cuda.current_stream(self.device))
            slot = self.free.get()
            with torch.cuda.stream(self.d2h_stream):
                self.d2h_stream.wait_event(ready)
                slot.tensor[: grad.numel()].copy_(grad, non_blocking=True)
                grad.record_stream(self.d2h_stream)
                slot.event.record(self.d2h_stream)
            self.tasks.put(CopyTask(index, grad.numel(), slot))
            param.grad = None

        return hook

    def _drain(self):
        while True:
            task = self.tasks.get()
            try:
                if task is None:
                    return
                task.slot.event.synchronize()
                self.accum[task.index].add_(task.slot.tensor[: task.numel].float())
                self.free.put(task.slot)
            finally:
                self.tasks.task_done()

    @torch.no_grad()
    def step(self, lr, momentum=0.9):
        self.tasks.join()
        torch.cuda.current_stream(self.device).synchronize()
        for i, p in enumerate(self.params):
            grad = self.accum[i].view_as(self.masters[i])
            self.momenta[i].mul_(momentum).add_(grad)
            self.masters[i].add_(self.momenta[i], alpha=-lr)
            grad.zero_()
            self.staging[i].copy_(self.masters[i])
            p.copy_(self.staging[i], non_blocking=True)

    def close(self):
        self.tasks.put(None)
        self.worker.join()


def train(model, loader, steps, accumulate=4, lr=1e-3):
    device = torch.device("cuda", 0)
    model = model.to(device, torch.bfloat16)
    offloader = CpuGradientOffloader(model.parameters(), device)
    data = iter(loader)
    for _ in range(steps):
        for _ in range(accumulate):
            x, y = (t.to(device, non_blocking=True) for t in next(data))
            loss = nn.functional.cross_entropy(model(x.bfloat16()).float(), y) / accumulate
            loss.backward()
        offloader.step(lr)
    offloader.close()
    torch.cuda.synchronize(device)
    return model
