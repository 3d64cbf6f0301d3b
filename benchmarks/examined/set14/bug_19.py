import queue as Queue
import threading

import torch
from torch.utils.data import DataLoader


class PrefetchGenerator(threading.Thread):
    def __init__(self, generator, num_prefetch_queue):
        super().__init__(daemon=True)
        self.queue = Queue.Queue(num_prefetch_queue)
        self.generator = generator
        self.start()

    def run(self):
        for item in self.generator:
            self.queue.put(item)
        self.queue.put(None)

    def __next__(self):
        item = self.queue.get()
        if item is None:
            raise StopIteration
        return item

    def __iter__(self):
        return self


class PrefetchDataLoader(DataLoader):
    def __init__(self, num_prefetch_queue, **kwargs):
        self.num_prefetch_queue = num_prefetch_queue
        super().__init__(**kwargs)

    def __iter__(self):
        return PrefetchGenerator(super().__iter__(), self.num_prefetch_queue)


class CUDAPrefetcher:
    def __init__(self, loader, opt):
        self.ori_loader = loader
        self.loader = iter(loader)
        self.opt = opt
        self.stream = torch.cuda.Stream()
        self.device = torch.device("cuda" if opt["num_gpu"] != 0 else "cpu")
        self.preload()

    def preload(self):
        try:
            self.batch = next(self.loader)
        except StopIteration:
            self.batch = None
            return
        with torch.cuda.stream(self.stream):
            for key, value in self.batch.items():
                if torch.is_tensor(value):
                    self.batch[key] = value.to(device=self.device, non_blocking=True)

    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        batch = self.batch
        self.preload()
        return batch

    def reset(self):
        self.loader = iter(self.ori_loader)
        self.preload()


def train(model, optimizer, criterion, dataset, opt, total_iter, logger):
    loader = PrefetchDataLoader(
        num_prefetch_queue=4, dataset=dataset, batch_size=opt["batch_size"], pin_memory=True,
        num_workers=opt["num_worker"], drop_last=True, shuffle=True,
    )
    prefetcher = CUDAPrefetcher(loader, opt)
    current_iter = 0
    while current_iter < total_iter:
        prefetcher.reset()
        train_data = prefetcher.next()
        while train_data is not None and current_iter < total_iter:
            current_iter += 1
            optimizer.zero_grad(set_to_none=True)
            loss = criterion(model(train_data["lq"]), train_data["gt"])
            loss.backward()
            optimizer.step()
            if current_iter % opt["print_freq"] == 0:
                logger.info("iter %d loss %.4e", current_iter, loss.item())
            train_data = prefetcher.next()
