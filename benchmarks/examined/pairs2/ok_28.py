"""Row cache for a large embedding table in host memory."""
import numpy as np
import torch
import torch.nn as nn


class CachedEmbedding(nn.Module):
    def __init__(self, rows, dim, max_unique):
        super().__init__()
        self.table = torch.randn(rows, dim) * 0.01
        self.dim = dim
        self.up = torch.empty(max_unique, dim, pin_memory=True)
        self.down = torch.empty(max_unique, dim, pin_memory=True)
        self.copy_stream = torch.cuda.Stream()
        self.uploaded = torch.cuda.Event()
        self.downloaded = torch.cuda.Event()
        self.dirty_ids = None

    def write_back(self):
        if self.dirty_ids is None:
            return
        self.downloaded.synchronize()
        self.table[self.dirty_ids] = self.down[:len(self.dirty_ids)]
        self.dirty_ids = None

    def forward(self, ids):
        self.write_back()
        unique, inverse = np.unique(ids, return_inverse=True)
        self.unique = torch.from_numpy(unique)
        n = len(unique)
        self.uploaded.synchronize()
        torch.index_select(self.table, 0, self.unique, out=self.up[:n])
        self.rows = self.up[:n].to("cuda", non_blocking=True).requires_grad_(True)
        self.uploaded.record()
        index = torch.from_numpy(inverse.reshape(ids.shape)).cuda()
        return self.rows[index].mean(1)

    @torch.no_grad()
    def update(self, lr):
        self.rows.sub_(self.rows.grad, alpha=lr)
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            self.down[:len(self.unique)].copy_(self.rows, non_blocking=True)
            self.downloaded.record()
        self.rows.record_stream(self.copy_stream)
        self.dirty_ids = self.unique


def main():
    emb = CachedEmbedding(1_000_000, 128, max_unique=64 * 20)
    head = nn.Linear(128, 1).cuda()
    opt = torch.optim.SGD(head.parameters(), lr=0.1)
    for _ in range(300):
        ids = np.random.randint(0, 1_000_000, (64, 20))
        loss = head(emb(ids)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        emb.update(0.1)
    emb.write_back()


if __name__ == "__main__":
    main()
