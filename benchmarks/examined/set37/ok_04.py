"""Two-tower retrieval model; the towers run on separate streams during training."""
from typing import Iterator, Tuple

import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self, vocabulary: int, dim: int, hidden: int):
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocabulary, dim, mode="mean")
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(self.mlp(self.embedding(ids)), dim=-1)


class TwoTower(nn.Module):
    def __init__(self, vocabulary: int, dim: int = 128, hidden: int = 1024):
        super().__init__()
        self.query = Tower(vocabulary, dim, hidden)
        self.item = Tower(vocabulary, dim, hidden)
        self.scale = nn.Parameter(torch.tensor(10.0))
        self.streams = (torch.cuda.Stream(), torch.cuda.Stream())

    def forward(self, query_ids: torch.Tensor, item_ids: torch.Tensor) -> torch.Tensor:
        caller = torch.cuda.current_stream()
        encoded = []
        for tower, ids, stream in zip((self.query, self.item), (query_ids, item_ids), self.streams):
            stream.wait_stream(caller)
            with torch.cuda.stream(stream):
                encoded.append(tower(ids))
            ids.record_stream(stream)
        for vectors, stream in zip(encoded, self.streams):
            caller.wait_stream(stream)
            vectors.record_stream(caller)
        return self.scale * encoded[0] @ encoded[1].t()


class Trainer:
    def __init__(self, model: TwoTower, lr: float = 1e-3):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def step(self, query_ids: torch.Tensor, item_ids: torch.Tensor) -> torch.Tensor:
        logits = self.model(query_ids, item_ids)
        target = torch.arange(logits.shape[0], device=logits.device)
        loss = nn.functional.cross_entropy(logits, target)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()


def batches(count: int, vocabulary: int, device: torch.device) -> Iterator[Tuple[torch.Tensor, torch.Tensor]]:
    for _ in range(count):
        yield (
            torch.randint(0, vocabulary, (2048, 16), device=device),
            torch.randint(0, vocabulary, (2048, 32), device=device),
        )


def main() -> None:
    device = torch.device("cuda")
    trainer = Trainer(TwoTower(200_000).to(device))
    losses = [trainer.step(*batch) for batch in batches(50, 200_000, device)]
    print(torch.stack(losses).cpu())


if __name__ == "__main__":
    main()
