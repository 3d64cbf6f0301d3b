import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Clicks(Dataset):
    def __init__(self, n, tables, dense):
        gen = torch.Generator().manual_seed(1)
        self.dense = torch.randn(n, dense, generator=gen)
        self.sparse = torch.randint(0, 1000, (n, tables), generator=gen)
        self.label = (self.dense[:, 0] + 0.1 * self.sparse[:, 0] / 1000 > 0).float()

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        return {"dense": self.dense[i], "sparse": [self.sparse[i, j] for j in range(self.sparse.size(1))], "label": self.label[i]}


def tree_map(fn, obj):
    if torch.is_tensor(obj):
        return fn(obj)
    if isinstance(obj, dict):
        return {k: tree_map(fn, v) for k, v in obj.items()}
    return [tree_map(fn, v) for v in obj]


class Ahead:
    def __init__(self, loader, device, mean, std):
        self.source = iter(loader)
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.mean = torch.full((1,), mean, device=device)
        self.scale = torch.full((1,), 1.0 / std, device=device)
        self.stream.wait_stream(torch.cuda.current_stream(device))
        self.batch = None
        self._load()

    def _load(self):
        try:
            item = next(self.source)
        except StopIteration:
            self.batch = None
            return
        with torch.cuda.stream(self.stream):
            moved = tree_map(lambda t: t.to(self.device, non_blocking=True), item)
            moved["dense"] = (moved["dense"] - self.mean) * self.scale
            self.batch = moved

    def __iter__(self):
        return self

    def __next__(self):
        if self.batch is None:
            raise StopIteration
        here = torch.cuda.current_stream(self.device)
        here.wait_stream(self.stream)
        batch = tree_map(lambda t: t.record_stream(here) or t, self.batch)
        self._load()
        return batch


class Wide(nn.Module):
    def __init__(self, tables, dense, dim=32):
        super().__init__()
        self.emb = nn.ModuleList(nn.Embedding(1000, dim) for _ in range(tables))
        self.bottom = nn.Linear(dense, dim)
        self.top = nn.Sequential(nn.Linear(dim * (tables + 1), 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, dense, sparse):
        parts = [F.relu(self.bottom(dense))] + [e(ids) for e, ids in zip(self.emb, sparse)]
        return self.top(torch.cat(parts, dim=1)).squeeze(1)


def main():
    device = torch.device("cuda", 0)
    data = Clicks(120_000, tables=6, dense=13)
    loader = DataLoader(data, batch_size=512, shuffle=True, num_workers=2, pin_memory=True, drop_last=True)
    model = Wide(6, 13).to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.02)
    for epoch in range(3):
        seen = torch.zeros((), device=device)
        for batch in Ahead(loader, device, 0.0, 1.0):
            loss = F.binary_cross_entropy_with_logits(model(batch["dense"], batch["sparse"]), batch["label"])
            opt.zero_grad()
            loss.backward()
            opt.step()
            seen += loss.detach()
        print(epoch, seen.item() / len(loader))


if __name__ == "__main__":
    main()
