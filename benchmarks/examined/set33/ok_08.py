"""Two towers of a retrieval model; the second one runs on a stream of its own in both directions."""
import torch
from torch import nn


def tower(dim_in, dim_out, depth):
    layers = [nn.Linear(dim_in, dim_out)]
    for _ in range(depth - 1):
        layers += [nn.GELU(), nn.Linear(dim_out, dim_out)]
    return nn.Sequential(*layers)


class TwoTower(nn.Module):
    def __init__(self, dim=256, hidden=512, depth=4, device="cuda:0"):
        super().__init__()
        self.query = tower(dim, hidden, depth)
        self.item = tower(dim, hidden, depth)
        self.scale = nn.Parameter(torch.tensor(10.0))
        self.device = torch.device(device)
        self.item_stream = torch.cuda.Stream(self.device)
        self.to(self.device)

    def forward(self, q, i):
        main = torch.cuda.current_stream(self.device)
        self.item_stream.wait_stream(main)
        with torch.cuda.stream(self.item_stream):
            item = nn.functional.normalize(self.item(i), dim=-1)
        i.record_stream(self.item_stream)
        query = nn.functional.normalize(self.query(q), dim=-1)
        main.wait_stream(self.item_stream)
        item.record_stream(main)
        return self.scale * query @ item.t()


class RetrievalTrainer:
    """In-batch softmax loss, gradient clipping and AdamW."""

    def __init__(self, model, lr=1e-3, max_norm=1.0):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        self.max_norm = max_norm

    def step(self, q, i):
        logits = self.model(q, i)
        target = torch.arange(len(q), device=logits.device)
        loss = nn.functional.cross_entropy(logits, target)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.optimizer.step()
        return loss.detach(), norm

    def epoch(self, pairs):
        losses, norms = [], []
        for q, i in pairs:
            q = q.to(self.model.device, non_blocking=True)
            i = i.to(self.model.device, non_blocking=True)
            loss, norm = self.step(q, i)
            losses.append(loss)
            norms.append(norm)
        return torch.stack(losses).mean().item(), torch.stack(norms).max().item()


def main(batches=32, batch=1024, dim=256):
    trainer = RetrievalTrainer(TwoTower(dim))
    pairs = [
        (torch.randn(batch, dim).pin_memory(), torch.randn(batch, dim).pin_memory()) for _ in range(batches)
    ]
    return trainer.epoch(pairs)


if __name__ == "__main__":
    print(main())
