import threading
import time
from queue import Queue

import torch


class MetricSnapshot:
    def __init__(self, step, names, host, event, wall):
        self.step = step
        self.names = names
        self.host = host
        self.event = event
        self.wall = wall


class AsyncMetricsLogger:
    """Copies device scalars to pinned memory and formats them on a daemon thread."""

    def __init__(self, sink, device):
        self.sink = sink
        self.device = device
        self.queue = Queue(maxsize=64)
        self.copy_stream = torch.cuda.Stream(device)
        self.thread = threading.Thread(target=self._drain, daemon=True)
        self.thread.start()

    def log(self, step, metrics):
        names = sorted(metrics)
        packed = torch.stack([metrics[n].detach().float().reshape(()) for n in names])
        host = torch.empty(packed.shape, dtype=packed.dtype, pin_memory=True)
        self.copy_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.copy_stream):
            host.copy_(packed, non_blocking=True)
            event = torch.cuda.Event()
            event.record(self.copy_stream)
        packed.record_stream(self.copy_stream)
        self.queue.put(MetricSnapshot(step, names, host, event, time.time()))

    def _drain(self):
        torch.cuda.set_device(self.device)
        while True:
            snap = self.queue.get()
            if snap is None:
                return
            snap.event.synchronize()
            self.sink(snap.step, dict(zip(snap.names, snap.host.tolist())), snap.wall)

    def close(self):
        self.queue.put(None)
        self.thread.join()


def train(model, optimizer, batches, log_freq, sink):
    device = torch.device("cuda", torch.cuda.current_device())
    logger = AsyncMetricsLogger(sink, device)
    running = torch.zeros((), device=device)
    count = 0
    for step, (tokens, labels) in enumerate(batches, start=1):
        tokens = tokens.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        running.add_(loss.detach())
        count += 1
        if step % log_freq == 0:
            logger.log(step, {"loss": running / count, "grad_norm": norm})
            running.zero_()
            count = 0
    logger.close()
