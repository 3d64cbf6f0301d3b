import torch
from torch import nn

from callbacks import EarlyStop, History
from trainer import Trainer


def batches(n, rows=1024, width=128):
    truth = torch.randn(width, 1, device="cuda")
    for _ in range(n):
        x = torch.randn(rows, width, device="cuda")
        yield x, x @ truth + 0.01 * torch.randn(rows, 1, device="cuda")


def main():
    net = nn.Sequential(nn.Linear(128, 1024), nn.Tanh(), nn.Linear(1024, 1)).to("cuda")
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    history = History()
    trainer = Trainer(net, opt, nn.functional.mse_loss, [history, EarlyStop()])
    trainer.fit(batches(1000))
    print(len(history.loss), history.loss[-1])


if __name__ == "__main__":
    main()
