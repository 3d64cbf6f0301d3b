import torch
from torch import nn


class FusedBackwardTrainer:
    """Applies each parameter's update as soon as its gradient exists, on a second stream."""

    def __init__(self, model, lr=1e-3, device="cuda"):
        self._device = torch.device(device, torch.cuda.current_device())
        self._model = model.to(self._device)
        self._stream = torch.cuda.Stream(self._device)
        self._optimizers = {}
        for param in self._model.parameters():
            if param.requires_grad:
                self._optimizers[param] = torch.optim.AdamW([param], lr=lr, foreach=False)
                param.register_post_accumulate_grad_hook(self._update)

    def _update(self, param):
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        param.grad.record_stream(self._stream)
        optimizer = self._optimizers[param]
        with torch.cuda.stream(self._stream):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def train_step(self, tokens, labels):
        loss = nn.functional.cross_entropy(self._model(tokens), labels)
        try:
            loss.backward()
        finally:
            torch.cuda.current_stream(self._device).wait_stream(self._stream)
        return loss.detach()

    @torch.no_grad()
    def accuracy(self, tokens, labels):
        return (self._model(tokens).argmax(1) == labels).float().mean().item()

    def export(self):
        return {name: value.cpu() for name, value in self._model.state_dict().items()}


class BagClassifier(nn.Module):
    def __init__(self, vocab, width, classes):
        super().__init__()
        self.embed = nn.EmbeddingBag(vocab, width, mode="mean")
        self.body = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(),
            nn.Linear(2 * width, width), nn.GELU(),
        )
        self.head = nn.Linear(width, classes)

    def forward(self, tokens):
        return self.head(self.body(self.embed(tokens)))


def sample(batch, vocab, device):
    tokens = torch.randint(0, vocab, (batch, 12), device=device)
    return tokens, tokens[:, 0] % 8


def main():
    torch.manual_seed(0)
    trainer = FusedBackwardTrainer(BagClassifier(64, 128, 8))
    losses = []
    for step in range(200):
        tokens, labels = sample(256, 64, "cuda")
        losses.append(trainer.train_step(tokens, labels))
        if step % 50 == 0:
            print(step, losses[-1].item(), trainer.accuracy(*sample(512, 64, "cuda")))
    state = trainer.export()
    print(sum(value.numel() for value in state.values()), torch.stack(losses[-10:]).mean().item())


if __name__ == "__main__":
    main()
