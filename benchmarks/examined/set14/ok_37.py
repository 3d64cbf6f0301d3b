import queue
import threading

import torch


class SparsifyWorker(threading.Thread):
    """Finds the largest entries of gradients on a private stream."""

    def __init__(self, device, ratio, inbox, outbox):
        super().__init__(daemon=True)
        self.device = device
        self.ratio = ratio
        self.inbox = inbox
        self.outbox = outbox
        self.stream = torch.cuda.Stream(device)

    def _select(self, x):
        flat = x.view(-1)
        k = max(1, int(flat.numel() * self.ratio))
        sample = flat.abs()[:: max(1, flat.numel() // 100_000)]
        threshold = sample.topk(max(1, int(sample.numel() * self.ratio))).values[-1]
        _, indices = torch.where(flat.abs() >= threshold, flat.abs(), torch.zeros_like(flat)).topk(k)
        return flat[indices], indices

    def run(self):
        with torch.cuda.stream(self.stream):
            while True:
                item = self.inbox.get()
                if item is None:
                    break
                key, tensor, produced = item
                self.stream.wait_event(produced)
                tensor.record_stream(self.stream)
                values, indices = self._select(tensor)
                done = torch.cuda.Event()
                done.record(self.stream)
                self.outbox.put((key, values, indices, done))


class Sparsifier:
    def __init__(self, device="cuda", ratio=0.01, workers=3):
        self.device = torch.device(device)
        self.inbox, self.outbox = queue.Queue(), queue.Queue()
        self.workers = [SparsifyWorker(self.device, ratio, self.inbox, self.outbox) for _ in range(workers)]
        for worker in self.workers:
            worker.start()

    def __call__(self, gradients):
        current = torch.cuda.current_stream(self.device)
        for key, gradient in gradients.items():
            produced = torch.cuda.Event()
            produced.record(current)
            self.inbox.put((key, gradient, produced))
        selected = {}
        for _ in gradients:
            key, values, indices, done = self.outbox.get()
            current.wait_event(done)
            values.record_stream(current)
            indices.record_stream(current)
            selected[key] = (values, indices)
        return selected

    def close(self):
        for _ in self.workers:
            self.inbox.put(None)
        for worker in self.workers:
            worker.join()


def compress(model, sparsifier):
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    residual = {}
    for name, (values, indices) in sparsifier(gradients).items():
        dense = torch.zeros_like(gradients[name]).view(-1)
        dense[indices] = values
        residual[name] = gradients[name].view(-1) - dense
        gradients[name].copy_(dense.view_as(gradients[name]))
    return residual
