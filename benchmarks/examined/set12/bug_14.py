import threading
from queue import Queue

import torch


class TensorTransfer:
    """Move a batch to the device on a dedicated stream, from a worker thread."""

    def __init__(self, device):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)

    def __call__(self, batch):
        with torch.cuda.stream(self.stream):
            moved = {
                k: v.pin_memory().to(self.device, non_blocking=True) for k, v in batch.items()
            }
            self.stream.synchronize()
        return moved


class PipelineDataLoader:
    def __init__(self, source, transfer, buffer_size=2):
        self.source = source
        self.transfer = transfer
        self.queue = Queue(maxsize=buffer_size)
        self._thread = None

    def _worker(self):
        try:
            for batch in self.source:
                self.queue.put(self.transfer(batch))
        finally:
            self.queue.put(None)

    def __iter__(self):
        self._thread = threading.Thread(target=self._worker, daemon=True)
        self._thread.start()
        while True:
            batch = self.queue.get()
            if batch is None:
                break
            yield batch
        self._thread.join()


def train_epoch(model, optimizer, loss_fn, source, device="cuda"):
    loader = PipelineDataLoader(source, TensorTransfer(device))
    running = torch.zeros((), device=device)
    steps = 0
    for batch in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(batch["image"])
            loss = loss_fn(logits, batch["label"])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        running += loss.detach()
        steps += 1
    return running.item() / max(steps, 1)
