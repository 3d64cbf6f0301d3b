import queue
import threading

import torch


class GradientOffloader:
    """Moves finished gradients to host accumulators while backward goes on."""

    def __init__(self, params, transfer_buffers=4):
        self.params = [p for p in params if p.requires_grad]
        self.accumulators = {p: torch.zeros(p.shape, dtype=torch.float32) for p in self.params}
        largest = max(p.numel() for p in self.params)
        dtype = self.params[0].dtype
        self.free = queue.Queue()
        for _ in range(transfer_buffers):
            self.free.put(torch.empty(largest, dtype=dtype, pin_memory=True))
        self.ready = queue.Queue()
        self.stream = torch.cuda.Stream()
        self.error = None
        self.handles = [p.register_post_accumulate_grad_hook(self._on_grad) for p in self.params]
        self.worker = threading.Thread(target=self._accumulate, daemon=True)
        self.worker.start()

    def _on_grad(self, param):
        grad = param.grad
        slot = self.free.get()
        host = slot[: grad.numel()].view(grad.shape)
        event = torch.cuda.Event()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            host.copy_(grad, non_blocking=True)
            event.record()
        grad.record_stream(self.stream)
        param.grad = None
        self.ready.put((param, host, slot, event))

    def _accumulate(self):
        while True:
            item = self.ready.get()
            if item is None:
                self.ready.task_done()
                return
            param, host, slot, event = item
            try:
                event.synchronize()
                self.accumulators[param].add_(host.float())
            except Exception as exc:
                self.error = exc
            finally:
                self.free.put(slot)
                self.ready.task_done()

    def wait(self):
        self.ready.join()
        if self.error is not None:
            raise self.error

    def close(self):
        for h in self.handles:
            h.remove()
        self.ready.put(None)
        self.worker.join()


class CPUMasterOptimizer:
    def __init__(self, offloader, lr=1e-5, max_norm=1.0):
        self.offloader, self.max_norm = offloader, max_norm
        self.masters = {p: p.detach().float().cpu() for p in offloader.params}
        self.optimizer = torch.optim.AdamW(list(self.masters.values()), lr=lr)

    def step(self, scale):
        self.offloader.wait()
        for p, master in self.masters.items():
            master.grad = self.offloader.accumulators[p].mul_(scale)
        torch.nn.utils.clip_grad_norm_(list(self.masters.values()), self.max_norm)
        self.optimizer.step()
        for p, master in self.masters.items():
            p.data.copy_(master)
            self.offloader.accumulators[p].zero_()


def train(model, micro_batches, accumulation, steps):
    offloader = GradientOffloader(model.parameters())
    opt = CPUMasterOptimizer(offloader)
    for step in range(steps):
        for _ in range(accumulation):
            tokens, labels = next(micro_batches)
            model(tokens.cuda(non_blocking=True), labels.cuda(non_blocking=True)).backward()
        opt.step(1.0 / accumulation)
    offloader.close()
