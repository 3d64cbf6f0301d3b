import sys

import torch
import torch.nn.functional as F
from torch import nn

from ckpt import Stager, Writer


def collect(model, optimizer):
    named = {f"model.{k}": v for k, v in model.state_dict().items()}
    names = {id(p): n for n, p in model.named_parameters()}
    for p, state in optimizer.state.items():
        for key in ("exp_avg", "exp_avg_sq"):
            named[f"optim.{names[id(p)]}.{key}"] = state[key]
    return named


class Session:
    def __init__(self, model, folder, save_every):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.stager = Stager(torch.device("cuda"))
        self.writer = Writer(folder)
        self.save_every = save_every

    def save(self, step):
        self.writer.drain()
        self.writer.submit(self.stager.take(step, collect(self.model, self.optimizer)))

    def run(self, steps, width):
        for step in range(1, steps + 1):
            x = torch.randn(128, width, device="cuda")
            loss = F.mse_loss(self.model(x), x.sin())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if step % self.save_every == 0:
                self.save(step)
        self.writer.close()


def main():
    width = 4096
    model = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)).cuda()
    folder = sys.argv[1] if len(sys.argv) > 1 else "checkpoints"
    Session(model, folder, save_every=100).run(1000, width)


if __name__ == "__main__":
    main()
