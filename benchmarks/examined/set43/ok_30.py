"""Threaded device feeder for a segmentation trainer."""
import collections
import threading

import torch
import torch.nn as nn

Batch = collections.namedtuple("Batch", "image mask index")


class ShapesDataset:
    def __init__(self, count, size):
        self.count, self.size = count, size

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        cx, cy, r = torch.rand(3, generator=g) * 0.5 + 0.2
        lin = torch.linspace(0, 1, self.size)
        yy, xx = torch.meshgrid(lin, lin, indexing="ij")
        mask = ((xx - cx) ** 2 + (yy - cy) ** 2 < (0.4 * r) ** 2).float()
        image = mask * 0.7 + torch.randn(self.size, self.size, generator=g) * 0.3
        return image[None], mask[None]


class Mailbox:
    """One-place handoff between two threads."""

    def __init__(self):
        self.cond = threading.Condition()
        self.item = None
        self.full = False

    def put(self, item):
        with self.cond:
            self.cond.wait_for(lambda: not self.full)
            self.item, self.full = item, True
            self.cond.notify_all()

    def get(self):
        with self.cond:
            self.cond.wait_for(lambda: self.full)
            item, self.item, self.full = self.item, None, False
            self.cond.notify_all()
            return item


class Feeder:
    def __init__(self, dataset, batch, device):
        self.dataset, self.batch = dataset, batch
        self.device = torch.device(device)
        self.box = Mailbox()
        self.stream = torch.cuda.Stream(self.device)

    def _collate(self, ids):
        pairs = [self.dataset[i] for i in ids]
        image = torch.stack([p[0] for p in pairs]).pin_memory()
        mask = torch.stack([p[1] for p in pairs]).pin_memory()
        return image, mask

    def _augment(self, image, mask):
        flip = torch.rand(len(image), device=self.device) < 0.5
        sel = flip.view(-1, 1, 1, 1)
        return torch.where(sel, image.flip(-1), image), torch.where(sel, mask.flip(-1), mask)

    def _loop(self):
        torch.cuda.set_device(self.device)
        order = torch.randperm(len(self.dataset)).tolist()
        with torch.cuda.stream(self.stream):
            for k in range(0, len(order) - self.batch + 1, self.batch):
                image, mask = self._collate(order[k:k + self.batch])
                image = image.to(self.device, non_blocking=True)
                mask = mask.to(self.device, non_blocking=True)
                image, mask = self._augment(image, mask)
                self.stream.synchronize()
                self.box.put(Batch(image, mask, k // self.batch))
        self.box.put(None)

    def __iter__(self):
        thread = threading.Thread(target=self._loop, daemon=True)
        thread.start()
        while (item := self.box.get()) is not None:
            cur = torch.cuda.current_stream(self.device)
            item.image.record_stream(cur)
            item.mask.record_stream(cur)
            yield item
        thread.join()


def unet():
    return nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(),
        nn.Conv2d(24, 24, 3, padding=2, dilation=2), nn.ReLU(),
        nn.Conv2d(24, 24, 3, padding=4, dilation=4), nn.ReLU(),
        nn.Conv2d(24, 1, 1),
    )


def main():
    torch.manual_seed(0)
    net = unet().cuda()
    opt = torch.optim.AdamW(net.parameters(), 2e-3)
    for epoch in range(3):
        last = None
        for b in Feeder(ShapesDataset(512, 128), 16, "cuda:0"):
            loss = nn.functional.binary_cross_entropy_with_logits(net(b.image), b.mask)
            opt.zero_grad()
            loss.backward()
            opt.step()
            last = loss
        print(epoch, last.item())


if __name__ == "__main__":
    main()
