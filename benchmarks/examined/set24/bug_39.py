"""Background reading of feature archives for acoustic-model training."""
import queue
import threading

import numpy as np
import torch


class ArchiveReader:
    """Reads ``key -> matrix`` entries; with ``background`` in a thread of its own."""

    def __init__(self, path, device, depth=4):
        self.archive = np.load(path, mmap_mode="r")
        self.device = device
        self.items = queue.Queue(maxsize=depth)
        self.thread = threading.Thread(target=self._read_loop, daemon=True)
        self.thread.start()

    def _read_matrix(self, key):
        host = torch.from_numpy(np.array(self.archive[key], dtype=np.float32)).pin_memory()
        mat = host.to(self.device, non_blocking=True)
        mat = mat - mat.mean(dim=0, keepdim=True)
        return mat.div_(mat.std(dim=0, keepdim=True).clamp_min_(1e-5))

    def _read_loop(self):
        stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(stream):
            for key in self.archive.files:
                self.items.put((key, self._read_matrix(key)))
        self.items.put(None)

    def __iter__(self):
        while True:
            item = self.items.get()
            if item is None:
                return
            yield item


class Tdnn(torch.nn.Module):
    def __init__(self, dim, targets):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv1d(dim, 512, 5, padding=2), torch.nn.ReLU(),
            torch.nn.Conv1d(512, 512, 3, padding=2, dilation=2), torch.nn.ReLU(),
            torch.nn.Conv1d(512, targets, 1))

    def forward(self, feats):
        return self.layers(feats.t().unsqueeze(0)).squeeze(0).t()


def train(path, device):
    model = Tdnn(40, 2000).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    for key, feats in ArchiveReader(path, device):
        logits = model(feats)
        target = torch.zeros(logits.shape[0], dtype=torch.int64, device=device)
        loss = torch.nn.functional.cross_entropy(logits, target)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        print(key, loss.item())


if __name__ == "__main__":
    train("feats.npz", torch.device("cuda", 0))
