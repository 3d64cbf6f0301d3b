"""Asynchronous GPU copy wrapper around a data loader."""
import torch


def recursive_copy_to_gpu(value, non_blocking=True):
    if isinstance(value, torch.Tensor):
        return value.cuda(non_blocking=non_blocking)
    if isinstance(value, dict):
        return {k: recursive_copy_to_gpu(v, non_blocking) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(recursive_copy_to_gpu(v, non_blocking) for v in value)
    return value


def recursive_record(value, stream):
    if isinstance(value, torch.Tensor):
        if value.is_cuda:
            value.record_stream(stream)
    elif isinstance(value, dict):
        for v in value.values():
            recursive_record(v, stream)
    elif isinstance(value, (list, tuple)):
        for v in value:
            recursive_record(v, stream)


class GPUAsyncIterator:
    """Uploads sample k+1 while sample k is being used."""

    def __init__(self, dataloader):
        self.iterator = iter(dataloader)
        self.stream = torch.cuda.Stream()
        self._next = None
        self._exhausted = False
        self._preload()

    def _preload(self):
        try:
            sample = next(self.iterator)
        except StopIteration:
            self._next = None
            self._exhausted = True
            return
        with torch.cuda.stream(self.stream):
            self._next = recursive_copy_to_gpu(sample, non_blocking=True)

    def __iter__(self):
        return self

    def __next__(self):
        if self._next is None and self._exhausted:
            raise StopIteration
        sample = self._next
        recursive_record(sample, torch.cuda.current_stream())
        self._preload()
        return sample


def train_epoch(model, loss_fn, optimizer, dataset, batch_size=256):
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=batch_size, shuffle=True, num_workers=4, pin_memory=True
    )
    total = 0.0
    for sample in GPUAsyncIterator(loader):
        optimizer.zero_grad(set_to_none=True)
        output = model(sample["input"])
        loss = loss_fn(output, sample["target"])
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total
