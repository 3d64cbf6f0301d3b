import torch
from torch.utils.data import DataLoader, Dataset


class Captions(Dataset):
    def __len__(self):
        return 2048

    def __getitem__(self, i):
        return {
            "image": torch.randn(3, 224, 224),
            "text": {"ids": torch.randint(0, 1000, (32,)), "mask": torch.ones(32)},
            "meta": [torch.tensor(i), f"sample-{i}"],
        }


def move_to_cuda(batch):
    if isinstance(batch, torch.Tensor):
        return batch.cuda(non_blocking=True)
    if isinstance(batch, (list, tuple)):
        return [move_to_cuda(t) for t in batch]
    if isinstance(batch, dict):
        return {k: move_to_cuda(v) for k, v in batch.items()}
    return batch


def record_cuda_stream(batch):
    if isinstance(batch, torch.Tensor):
        batch.record_stream(torch.cuda.current_stream())
    elif isinstance(batch, (list, tuple)):
        for t in batch:
            record_cuda_stream(t)
    elif isinstance(batch, dict):
        for t in batch.values():
            record_cuda_stream(t)


class PrefetchLoader:
    """Overlap host-to-device copies with compute."""

    def __init__(self, loader):
        self.loader = loader
        self.stream = torch.cuda.Stream()

    def __iter__(self):
        it = iter(self.loader)
        self.preload(it)
        batch = self.next(it)
        while batch is not None:
            yield batch
            batch = self.next(it)

    def __len__(self):
        return len(self.loader)

    def preload(self, it):
        try:
            self.batch = next(it)
        except StopIteration:
            self.batch = None
            return
        with torch.cuda.stream(self.stream):
            self.batch = move_to_cuda(self.batch)

    def next(self, it):
        torch.cuda.current_stream().wait_stream(self.stream)
        batch = self.batch
        if batch is not None:
            record_cuda_stream(batch)
        self.preload(it)
        return batch

    def __getattr__(self, name):
        return getattr(self.loader, name)


def main():
    loader = PrefetchLoader(DataLoader(Captions(), batch_size=64, num_workers=4, pin_memory=True))
    conv = torch.nn.Conv2d(3, 16, 7, stride=4).cuda()
    emb = torch.nn.Embedding(1000, 16).cuda()
    opt = torch.optim.SGD(list(conv.parameters()) + list(emb.parameters()), lr=0.1)
    for batch in loader:
        img = conv(batch["image"]).mean((2, 3))
        txt = (emb(batch["text"]["ids"]) * batch["text"]["mask"].unsqueeze(-1)).mean(1)
        loss = 1 - torch.cosine_similarity(img, txt).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
