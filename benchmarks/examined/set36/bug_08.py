"""Mini-batch loader that moves sampled sub-graphs to the GPU from a thread with its own stream."""
import queue
import threading

import torch
import torch.nn.functional as F


def _to_device(batch, device):
    return {k: v.pin_memory().to(device, non_blocking=True) for k, v in batch.items()}


def _prefetcher_entry(iterator, out, device, stream, stopped):
    try:
        torch.cuda.set_device(device)
        for batch in iterator:
            if stopped.is_set():
                break
            with torch.cuda.stream(stream):
                moved = _to_device(batch, device)
                event = stream.record_event()
            out.put((moved, event, None))
            del moved
        out.put((None, None, None))
    except Exception as exc:
        out.put((None, None, exc))


class SubgraphLoader:
    def __init__(self, sampler, device, depth=2):
        self.sampler = sampler
        self.device = torch.device(device)
        self.depth = depth
        self.stream = torch.cuda.Stream(self.device)

    def __iter__(self):
        out = queue.Queue(self.depth)
        stopped = threading.Event()
        thread = threading.Thread(
            target=_prefetcher_entry,
            args=(iter(self.sampler), out, self.device, self.stream, stopped), daemon=True)
        thread.start()
        try:
            while True:
                batch, event, exc = out.get()
                if exc is not None:
                    raise exc
                if batch is None:
                    break
                torch.cuda.current_stream(self.device).wait_event(event)
                yield batch
        finally:
            stopped.set()


def train_epoch(model, loader, optimizer):
    total = torch.zeros((), device=loader.device)
    for batch in loader:
        optimizer.zero_grad(set_to_none=True)
        pred = model(batch["feat"], batch["edge_index"])
        loss = F.cross_entropy(pred[: batch["label"].shape[0]], batch["label"])
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return total
