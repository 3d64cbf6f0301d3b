from collections.abc import Mapping

import torch


def map_tensors(data, fn):
    if torch.is_tensor(data):
        return fn(data)
    if isinstance(data, Mapping):
        return {key: map_tensors(value, fn) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(map_tensors(value, fn) for value in data))
    if isinstance(data, (list, tuple)):
        return type(data)(map_tensors(value, fn) for value in data)
    return data


class StreamPrefetcher:
    def __init__(self, loader, device, transform=None):
        self.loader = loader
        self.device = torch.device(device)
        self.transform = transform
        self.stream = torch.cuda.Stream(self.device)

    def _load(self, iterator):
        batch = next(iterator, None)
        if batch is None:
            return None
        with torch.cuda.stream(self.stream):
            batch = map_tensors(batch, lambda t: t.to(self.device, non_blocking=True))
            if self.transform is not None:
                batch = self.transform(batch)
        return batch

    def _hand_over(self, batch):
        current = torch.cuda.current_stream(self.device)
        current.wait_stream(self.stream)

        def keep(tensor):
            if tensor.is_cuda:
                tensor.record_stream(current)
            return tensor

        return map_tensors(batch, keep)

    def __iter__(self):
        iterator = iter(self.loader)
        upcoming = self._load(iterator)
        while upcoming is not None:
            batch = self._hand_over(upcoming)
            upcoming = self._load(iterator)
            yield batch

    def __len__(self):
        return len(self.loader)


def normalize(batch):
    signal, target, weight = batch
    mean = signal.mean(dim=-1, keepdim=True)
    std = signal.std(dim=-1, keepdim=True).clamp_(min=1e-5)
    return (signal - mean) / std, target, weight


def train_epoch(model, optimizer, loader, device, log=None):
    model.train()
    running = torch.zeros((), device=device)
    for step, (signal, target, weight) in enumerate(StreamPrefetcher(loader, device, normalize), 1):
        output = model(signal)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(output, target, weight=weight)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        running += loss.detach()
        if log is not None and step % 100 == 0:
            log(step, running.item() / step)
