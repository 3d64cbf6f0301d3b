import queue
import threading

import torch


class GradientSlot:
    def __init__(self, numel):
        self.host = torch.empty(numel, dtype=torch.float32, pin_memory=True)
        self.event = torch.cuda.Event()


class BackwardEngine:
    """Downloads embedding gradients in a thread and applies them on the host."""

    def __init__(self, tables, lr, device, depth=4):
        self.tables = tables
        self.lock = threading.Lock()
        self.lr = lr
        self.device = device
        self.tasks = queue.Queue(depth)
        self.stream = torch.cuda.Stream(device)
        self.slots = {}
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def _slot(self, numel):
        if numel not in self.slots:
            self.slots[numel] = GradientSlot(numel)
        return self.slots[numel]

    def _loop(self):
        torch.cuda.set_device(self.device)
        while True:
            task = self.tasks.get()
            if task is None:
                return
            grads, ready = task
            self.stream.wait_event(ready)
            for name, (ids, grad) in grads.items():
                slot = self._slot(grad.numel())
                with torch.cuda.stream(self.stream):
                    slot.host.view(grad.shape).copy_(grad, non_blocking=True)
                    slot.event.record(self.stream)
                slot.event.synchronize()
                with self.lock:
                    self.tables[name].index_add_(
                        0, ids, slot.host.view(grad.shape), alpha=-self.lr)
            del task, grads, grad

    def lookup(self, name, ids):
        with self.lock:
            return self.tables[name][ids]

    def submit(self, grads):
        ready = torch.cuda.Event()
        ready.record(torch.cuda.current_stream(self.device))
        self.tasks.put((grads, ready))

    def close(self):
        self.tasks.put(None)
        self.thread.join()


def train(dense, tables, loader, device=torch.device("cuda", 0)):
    torch.cuda.set_device(device)
    dense = dense.to(device)
    optim = torch.optim.Adam(dense.parameters())
    engine = BackwardEngine(tables, 0.05, device)
    for batch, labels in loader:
        embeddings = {}
        for name, ids in batch.items():
            rows = engine.lookup(name, ids).to(device)
            embeddings[name] = (ids, rows.requires_grad_())
        logits = dense(torch.cat([r for _, r in embeddings.values()], dim=1)).squeeze(1)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels.to(device))
        optim.zero_grad()
        loss.backward()
        engine.submit({n: (ids, r.grad) for n, (ids, r) in embeddings.items()})
        optim.step()
    engine.close()
