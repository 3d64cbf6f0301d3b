"""Two-device pipeline with micro-batches; activations cross by direct copies."""
import torch
from torch import nn


class TwoStage(nn.Module):
    def __init__(self, width, classes, first="cuda:0", second="cuda:1", micro=4):
        super().__init__()
        self.first = torch.device(first)
        self.second = torch.device(second)
        self.micro = micro
        self.stem = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width),
        ).to(self.first)
        self.head = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, classes),
        ).to(self.second)

    def forward(self, x):
        pieces = iter(x.split(max(1, -(-x.shape[0] // self.micro))))
        crossing = self.stem(next(pieces).to(self.first)).to(self.second, non_blocking=True)
        outputs = []
        for piece in pieces:
            outputs.append(self.head(crossing))
            hidden = self.stem(piece.to(self.first))
            crossing = hidden.to(self.second, non_blocking=True)
            del hidden
        outputs.append(self.head(crossing))
        return torch.cat(outputs)


def train(steps=20, batch=120, width=512, classes=10):
    model = TwoStage(width, classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    running = torch.zeros((), device=model.second)
    for _ in range(steps):
        x = torch.randn(batch, width, device=model.first)
        y = (x[:, :classes]).argmax(1).to(model.second, non_blocking=True)
        loss = criterion(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        running += loss.detach()
    return running.item() / steps


if __name__ == "__main__":
    if torch.cuda.device_count() < 2:
        raise SystemExit("needs two devices")
    print(train())
