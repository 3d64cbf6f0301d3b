"""Data loader wrapper that moves batches to the device on a copy stream."""
import collections.abc

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader


class _WrappedDataLoader:
    """Moves (possibly nested) batches to the device, one batch ahead of the consumer."""

    def __init__(self, base_dataloader, device, auto_transfer=True):
        self._dataloader = base_dataloader
        self.device = device
        self._auto_transfer = auto_transfer and device.type == "cuda"
        self._memcpy_stream = torch.cuda.Stream(device) if self._auto_transfer else None
        self.dataloader_iter = None
        self.next_batch = None

    def __len__(self):
        return len(self._dataloader)

    def _move_to_device(self, item):
        if item is None:
            return None

        def to_device(obj):
            if isinstance(obj, torch.Tensor):
                return obj.to(self.device, non_blocking=self._auto_transfer)
            if isinstance(obj, collections.abc.Mapping):
                return {k: to_device(v) for k, v in obj.items()}
            if isinstance(obj, (tuple, list)):
                return type(obj)(to_device(v) for v in obj)
            return obj

        if self._memcpy_stream is None:
            return to_device(item)
        with torch.cuda.stream(self._memcpy_stream):
            return to_device(item)

    def _wait_for_batch(self, item):
        if self._memcpy_stream is None:
            return
        curr_stream = torch.cuda.current_stream(self.device)
        curr_stream.wait_stream(self._memcpy_stream)
        for i in item:
            if isinstance(i, torch.Tensor):
                i.record_stream(curr_stream)

    def _prefetch_next_batch(self):
        self.next_batch = self._move_to_device(next(self.dataloader_iter, None))

    def __iter__(self):
        self.dataloader_iter = iter(self._dataloader)
        self._prefetch_next_batch()
        return self

    def __next__(self):
        batch = self.next_batch
        if batch is None:
            raise StopIteration
        self._wait_for_batch(batch)
        self._prefetch_next_batch()
        return batch


def collate(samples):
    images = torch.stack([s[0] for s in samples])
    boxes = torch.stack([s[1] for s in samples])
    labels = torch.stack([s[2] for s in samples])
    return {"images": images, "targets": {"boxes": boxes, "labels": labels}}


def detection_loss(outputs, targets):
    cls_logits, box_reg = outputs
    cls = F.cross_entropy(cls_logits.flatten(0, 1), targets["labels"].flatten())
    return cls + F.smooth_l1_loss(box_reg, targets["boxes"])


def train_loop_per_worker(model, dataset, config):
    device = torch.device("cuda", config["local_rank"])
    torch.cuda.set_device(device)
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    loader = DataLoader(
        dataset, batch_size=config["batch_size"], shuffle=True,
        num_workers=8, pin_memory=True, collate_fn=collate, drop_last=True,
    )
    loader = _WrappedDataLoader(loader, device)
    total = torch.zeros((), device=device)
    for _ in range(config["epochs"]):
        total.zero_()
        for batch in loader:
            outputs = model(batch["images"])
            loss = detection_loss(outputs, batch["targets"])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            total += loss.detach()
        print("epoch loss", total.item() / len(loader))
