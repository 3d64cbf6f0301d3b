import queue
import threading

import torch
from torch.utils.data import DataLoader


class BackgroundGenerator(threading.Thread):
    def __init__(self, generator, local_rank, max_prefetch=10):
        super().__init__(daemon=True)
        self.queue = queue.Queue(max_prefetch)
        self.generator = generator
        self.local_rank = local_rank
        self.exit_event = threading.Event()
        self.start()

    def run(self):
        torch.cuda.set_device(self.local_rank)
        for item in self.generator:
            if self.exit_event.is_set():
                break
            self.queue.put(item)
        self.queue.put(None)

    def __next__(self):
        item = self.queue.get()
        if item is None:
            raise StopIteration
        return item

    def __iter__(self):
        return self


class DataLoaderX(DataLoader):
    def __init__(self, local_rank, **kwargs):
        super().__init__(pin_memory=True, **kwargs)
        self.stream = torch.cuda.Stream(local_rank)
        self.local_rank = local_rank

    def __iter__(self):
        self.iter = BackgroundGenerator(super().__iter__(), self.local_rank)
        self.preload()
        return self

    def preload(self):
        self.batch = next(self.iter, None)
        if self.batch is None:
            return
        with torch.cuda.stream(self.stream):
            for k in self.batch:
                if isinstance(self.batch[k], torch.Tensor):
                    self.batch[k] = self.batch[k].to(device=self.local_rank, non_blocking=True)

    def __next__(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        batch = self.batch
        if batch is None:
            raise StopIteration
        for v in batch.values():
            if isinstance(v, torch.Tensor):
                v.record_stream(torch.cuda.current_stream())
        self.preload()
        return batch


class SimpleTrainer:
    def __init__(self, model, data_loader, optimizer, log_period=200):
        self.model = model
        self.data_loader = data_loader
        self.optimizer = optimizer
        self.log_period = log_period

    def train_epoch(self, epoch):
        self.model.train()
        for it, data in enumerate(self.data_loader):
            losses = self.model(data["images"], data["targets"])
            total = sum(losses.values())
            self.optimizer.zero_grad(set_to_none=True)
            total.backward()
            self.optimizer.step()
            if it % self.log_period == 0:
                print(f"epoch {epoch} iter {it} loss {total.item():.4f}")
