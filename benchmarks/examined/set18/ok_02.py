"""Prefetch batches to the device with a background thread and a side stream."""
from threading import Thread

import torch
from torch.utils.data import DataLoader


def move_batch_to_device(batch, device):
    moved = {key: value.to(device, non_blocking=True) for key, value in batch.items()}
    if moved["input_ids"].dtype != torch.long:
        moved["input_ids"] = moved["input_ids"].to(torch.long)
    return moved


class CUDAPrefetcher:
    """Overlaps DataLoader iteration and H2D transfer with compute."""

    def __init__(self, dataloader, device):
        self.dataloader = dataloader
        self.device = device
        self.stream = torch.cuda.Stream(device=device)
        self._iter = None
        self._thread = None
        self._gpu_batch = None
        self._done = False

    def __iter__(self):
        self._iter = iter(self.dataloader)
        self._done = False
        self._gpu_batch = None
        self._thread = None
        self._fetch_and_transfer()
        return self

    def _fetch_and_transfer(self):
        while True:
            try:
                cpu_batch = next(self._iter)
            except StopIteration:
                self._done = True
                return
            if cpu_batch is not None:
                break
        with torch.cuda.stream(self.stream):
            self._gpu_batch = move_batch_to_device(cpu_batch, self.device)

    def __next__(self):
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._done:
            raise StopIteration
        current = torch.cuda.current_stream(self.device)
        current.wait_stream(self.stream)
        batch = self._gpu_batch
        for value in batch.values():
            value.record_stream(current)
        self._thread = Thread(target=self._fetch_and_transfer, daemon=True)
        self._thread.start()
        return batch

    def __len__(self):
        return len(self.dataloader)


def train(model, dataset, collate, steps=1000):
    device = torch.device("cuda", 0)
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
    loader = DataLoader(dataset, batch_size=8, collate_fn=collate, num_workers=4, pin_memory=True)
    running = torch.zeros((), device=device)
    seen = 0
    while seen < steps:
        for batch in CUDAPrefetcher(loader, device):
            logits = model(batch["input_ids"], batch["attention_mask"])
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), batch["labels"].flatten().long(), ignore_index=-100
            )
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            running += loss.detach()
            seen += 1
            if seen % 50 == 0:
                print(seen, running.item() / 50)
                running.zero_()
            if seen >= steps:
                break
    return model
