"""Device batch prefetcher for a trainer: nested micro-batches are uploaded one step ahead."""
import torch


def _map(obj, fn):
    if torch.is_tensor(obj):
        return fn(obj)
    if isinstance(obj, dict):
        return {k: _map(v, fn) for k, v in obj.items()}
    if isinstance(obj, (list, tuple)):
        return type(obj)(_map(v, fn) for v in obj)
    return obj


class DevicePrefetcher:
    def __init__(self, loader, device):
        self.loader = loader
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.iterator = None
        self.next_batch = None
        self.next_host = None
        self.copied = torch.cuda.Event()

    def __iter__(self):
        self.iterator = iter(self.loader)
        self.next_batch = None
        self._preload()
        return self

    def _preload(self):
        try:
            host = next(self.iterator)
        except StopIteration:
            self.next_batch = None
            return
        pinned = _map(host, lambda t: t if t.is_pinned() else t.pin_memory())
        with torch.cuda.stream(self.stream):
            self.next_batch = _map(pinned, lambda t: t.to(self.device, non_blocking=True))
            self.copied.record(self.stream)
        self.next_host = pinned

    def __next__(self):
        if self.next_batch is None:
            raise StopIteration
        current = torch.cuda.current_stream(self.device)
        current.wait_event(self.copied)
        batch = _map(self.next_batch, lambda t: self._own(t, current))
        self._preload()
        return batch

    @staticmethod
    def _own(tensor, stream):
        tensor.record_stream(stream)
        return tensor


def train(model, optimizer, loader, device, grad_accum=4):
    prefetcher = DevicePrefetcher(loader, device)
    losses = []
    for step, micro_batches in enumerate(prefetcher):
        optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=device)
        for mb in micro_batches[:grad_accum]:
            loss = model(**mb).loss / grad_accum
            loss.backward()
            total += loss.detach()
        optimizer.step()
        losses.append(total)
    return torch.stack(losses).tolist()
