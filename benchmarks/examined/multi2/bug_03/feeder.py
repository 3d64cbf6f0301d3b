import threading

import numpy as np
import torch


class Feeder(threading.Thread):
    """Decodes samples straight into the rack's trays."""

    def __init__(self, source, rack, epochs=1):
        super().__init__(daemon=True)
        self.source = source
        self.rack = rack
        self.epochs = epochs
        self.mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)

    def steps(self):
        return self.epochs * (len(self.source) // self.rack.batch)

    def _decode(self, index):
        raw, label = self.source[index]
        img = torch.from_numpy(raw).to(torch.float32).div_(255.0)
        return img - self.mean, label

    def run(self):
        n = len(self.source)
        for epoch in range(self.epochs):
            order = np.random.default_rng(epoch).permutation(n)
            for lo in range(0, n - self.rack.batch + 1, self.rack.batch):
                tray = self.rack.get_empty()
                for j, index in enumerate(order[lo:lo + self.rack.batch]):
                    img, label = self._decode(int(index))
                    tray.images[j] = img
                    tray.labels[j] = label
                tray.count = self.rack.batch
                self.rack.give_full(tray)
        self.rack.close()
