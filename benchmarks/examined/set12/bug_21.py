import threading
from queue import Queue

import torch


class GradOffloader:
    """Evict finished gradients to pinned host accumulators during backward."""

    def __init__(self, params, num_staging=8):
        self.params = list(params)
        self.d2h_stream = torch.cuda.Stream()
        self.accumulators = {id(p): torch.zeros(p.shape, dtype=torch.float32) for p in self.params}
        largest = max(p.numel() for p in self.params)
        self.staging = Queue()
        for _ in range(num_staging):
            self.staging.put(torch.empty(largest, dtype=torch.float32, pin_memory=True))
        self.jobs = Queue()
        self.worker = threading.Thread(target=self._accumulate_loop, daemon=True)
        self.worker.start()
        for p in self.params:
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _on_grad(self, p):
        grad = p.grad
        p.grad = None
        buf = self.staging.get()
        view = buf[: grad.numel()].view(grad.shape)
        self.d2h_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.d2h_stream):
            view.copy_(grad.float(), non_blocking=True)
            event = torch.cuda.Event()
            event.record(self.d2h_stream)
        grad.record_stream(self.d2h_stream)
        self.jobs.put((id(p), buf, view, event))

    def _accumulate_loop(self):
        while True:
            job = self.jobs.get()
            if job is None:
                return
            key, buf, view, event = job
            self.accumulators[key].add_(view)
            self.staging.put(buf)
            self.jobs.task_done()

    def finish(self):
        self.jobs.join()
        total = torch.zeros(())
        for acc in self.accumulators.values():
            total += acc.pow(2).sum()
        return total.sqrt()

    def close(self):
        self.jobs.put(None)
        self.worker.join()


def train_step(model, offloader, cpu_optimizer, micro_batches, loss_fn, max_norm):
    for batch in micro_batches:
        loss_fn(model(batch["x"]), batch["y"]).backward()
    norm = offloader.finish()
    scale = min(1.0, max_norm / (float(norm) + 1e-6))
    cpu_optimizer.step(offloader.accumulators, scale)
    for acc in offloader.accumulators.values():
        acc.zero_()
    return norm
