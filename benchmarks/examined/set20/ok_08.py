"""Threaded batch buffer that overlaps batch generation with training."""
import random
from queue import Empty, Full, Queue
from threading import Thread

import torch
from torch.utils.data import DataLoader, Dataset


class ThreadBuffer:
    """Iterate over src in a separate thread, keeping buffer_size items ready."""

    def __init__(self, src, buffer_size=1, timeout=0.01):
        self.src = src
        self.buffer = Queue(buffer_size)
        self.timeout = timeout
        self.gen_thread = None
        self.is_running = False

    def enqueue_values(self):
        for value in self.src:
            while self.is_running:
                try:
                    self.buffer.put(value, timeout=self.timeout)
                except Full:
                    continue
                break
            else:
                break

    def stop(self):
        self.is_running = False
        if self.gen_thread is not None:
            self.gen_thread.join()
        self.gen_thread = None

    def __iter__(self):
        self.is_running = True
        self.gen_thread = Thread(target=self.enqueue_values, daemon=True)
        self.gen_thread.start()
        try:
            while self.is_running and (self.gen_thread.is_alive() or not self.buffer.empty()):
                try:
                    yield self.buffer.get(timeout=self.timeout)
                except Empty:
                    continue
        finally:
            self.stop()


class GpuAugment:
    def __init__(self, device, crop=96):
        self.device = device
        self.crop = crop

    def __call__(self, batch):
        image = batch["image"].to(self.device, non_blocking=True)
        label = batch["label"].to(self.device, non_blocking=True)
        z, y, x = (random.randint(0, s - self.crop) for s in image.shape[2:])
        region = (..., slice(z, z + self.crop), slice(y, y + self.crop), slice(x, x + self.crop))
        image, label = image[region].float(), label[region]
        if random.random() < 0.5:
            image, label = image.flip(-1), label.flip(-1)
        mean = image.mean(dim=(2, 3, 4), keepdim=True)
        std = image.std(dim=(2, 3, 4), keepdim=True)
        return {"image": (image - mean) / (std + 1e-6), "label": label.long()}


class ThreadDataLoader(DataLoader):
    def __init__(self, dataset, transform, buffer_size=2, **kwargs):
        super().__init__(dataset, **kwargs)
        self.transform = transform
        self.buffer_size = buffer_size

    def _generate(self):
        for batch in super().__iter__():
            yield self.transform(batch)

    def __iter__(self):
        yield from ThreadBuffer(self._generate(), self.buffer_size)


class VolumeDataset(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        return torch.load(self.paths[i])


def train(paths, net, epochs=10):
    device = torch.device("cuda", 0)
    net = net.to(device)
    opt = torch.optim.Adam(net.parameters(), 1e-4)
    loader = ThreadDataLoader(
        VolumeDataset(paths), GpuAugment(device),
        batch_size=2, shuffle=True, num_workers=4, pin_memory=True,
    )
    for _ in range(epochs):
        running = torch.zeros((), device=device)
        for batch in loader:
            opt.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(net(batch["image"]), batch["label"][:, 0])
            loss.backward()
            opt.step()
            running += loss.detach()
        print(running.item() / max(len(loader), 1))
