import torch
from torch import nn

from data import Windows, synthetic
from staging import DevicePrefetcher


def build(width):
    return nn.Sequential(
        nn.Linear(width, 256),
        nn.GELU(),
        nn.Linear(256, 256),
        nn.GELU(),
        nn.Linear(256, 1),
    )


def main(epochs=3, width=64, batch=128):
    loader = DevicePrefetcher(Windows(synthetic(), width, batch), "cuda:0")
    model = build(width).to("cuda:0")
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        total = torch.zeros((), device="cuda:0")
        for item in loader:
            x = item["x"]
            x.sub_(x.mean(dim=1, keepdim=True))
            loss = nn.functional.mse_loss(model(x), item["y"])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.detach()
        print(epoch, (total / len(loader)).item())


if __name__ == "__main__":
    main()
