"""Embedding rows gathered on the host and uploaded through alternating pinned pages."""
import torch
from torch import nn


class HostEmbedding(nn.Module):
    def __init__(self, rows, width, max_lookup, device="cuda:0", pages=2):
        super().__init__()
        self.target = torch.device(device)
        self.table = torch.randn(rows, width)
        self._pages = [torch.empty(max_lookup, width, pin_memory=True)
                       for _ in range(pages)]
        self._sent = [None] * pages
        self._turn = 0

    def _page(self):
        turn = self._turn
        self._turn = (turn + 1) % len(self._pages)
        if self._sent[turn] is not None:
            self._sent[turn].synchronize()
        return turn, self._pages[turn]

    def forward(self, ids):
        flat = ids.reshape(-1)
        if flat.numel() > self._pages[0].shape[0]:
            raise ValueError("too many ids in one lookup")
        turn, page = self._page()
        rows = page[:flat.numel()]
        torch.index_select(self.table, 0, flat, out=rows)
        stream = torch.cuda.current_stream(self.target)
        vectors = rows.to(self.target, non_blocking=True)
        self._sent[turn] = stream.record_event()
        return vectors.view(*ids.shape, -1)

    @torch.no_grad()
    def update(self, ids, delta):
        self.table.index_add_(0, ids.reshape(-1),
                              delta.reshape(-1, self.table.shape[1]).cpu())


def main(steps=40):
    torch.manual_seed(0)
    embedding = HostEmbedding(100_000, 64, 4096)
    tower = nn.Linear(64, 1).to(embedding.target)
    optimizer = torch.optim.SGD(tower.parameters(), lr=1e-2)
    for step in range(steps):
        ids = torch.randint(0, 100_000, (128, 16))
        vectors = embedding(ids).requires_grad_()
        loss = (tower(vectors.mean(1)) - 1).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        embedding.update(ids, vectors.grad * -0.1)
        if step % 10 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
