"""Two towers are evaluated on two streams, in training as well."""
import torch
import torch.nn.functional as F
from torch import nn


class Tower(nn.Module):
    def __init__(self, inputs, hidden, outputs, depth):
        super().__init__()
        layers = [nn.Linear(inputs, hidden), nn.GELU()]
        for _ in range(depth):
            layers += [nn.Linear(hidden, hidden), nn.LayerNorm(hidden), nn.GELU()]
        self.layers = nn.Sequential(*layers, nn.Linear(hidden, outputs))

    def forward(self, x):
        return self.layers(x)


class TwoTower(nn.Module):
    def __init__(self, user_dim, item_dim, hidden=1024, embed=256, depth=4, device="cuda"):
        super().__init__()
        self.user = Tower(user_dim, hidden, embed, depth).to(device)
        self.item = Tower(item_dim, hidden, embed, depth).to(device)
        self.scale = nn.Parameter(torch.tensor(2.65, device=device))
        self.side = torch.cuda.Stream(device=device)

    def forward(self, users, items):
        main = torch.cuda.current_stream(users.device)
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            item_vectors = F.normalize(self.item(items), dim=-1)
        user_vectors = F.normalize(self.user(users), dim=-1)
        main.wait_stream(self.side)
        item_vectors.record_stream(main)
        return self.scale.exp() * user_vectors @ item_vectors.t()


class Trainer:
    def __init__(self, model, lr=1e-3, accumulate=2, clip=1.0):
        self.model = model
        self.accumulate = accumulate
        self.clip = clip
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        self.running = torch.zeros((), device=model.scale.device)

    def step(self, batches):
        self.optimizer.zero_grad(set_to_none=True)
        for users, items in batches:
            logits = self.model(users, items)
            target = torch.arange(logits.shape[0], device=logits.device)
            loss = F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)
            (loss / self.accumulate).backward()
            self.running.lerp_(loss.detach(), 0.05)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        return norm

    @torch.no_grad()
    def recall(self, users, items, k=10):
        logits = self.model(users, items)
        top = logits.topk(k, dim=-1).indices
        target = torch.arange(logits.shape[0], device=logits.device).unsqueeze(1)
        return (top == target).any(dim=-1).float().mean().item()


def synthetic(batch, user_dim, item_dim, device):
    latent = torch.randn(batch, 32, device=device)
    gen = torch.Generator(device=device).manual_seed(7)
    to_user = torch.randn(32, user_dim, device=device, generator=gen)
    to_item = torch.randn(32, item_dim, device=device, generator=gen)
    return latent @ to_user, latent @ to_item


def main(steps=100, device="cuda"):
    model = TwoTower(512, 384, device=device)
    trainer = Trainer(model)
    for step in range(steps):
        batches = [synthetic(1024, 512, 384, device) for _ in range(trainer.accumulate)]
        trainer.step(batches)
        if step % 25 == 24:
            print(step, trainer.running.item(), trainer.recall(*batches[0]))


if __name__ == "__main__":
    main()
