import torch
from torch import nn

from sampler import DenoiseEngine, Schedule
from sampler.preview import Previewer


class Net(nn.Module):
    def __init__(self, ch=64):
        super().__init__()
        self.inp = nn.Conv2d(4, ch, 3, padding=1)
        self.mid = nn.ModuleList(nn.Conv2d(ch, ch, 3, padding=1) for _ in range(6))
        self.out = nn.Conv2d(ch, 4, 3, padding=1)
        self.time = nn.Linear(1, ch)

    def forward(self, x, t):
        h = self.inp(x) + self.time(t.view(1, 1)).view(1, -1, 1, 1)
        for conv in self.mid:
            h = h + torch.nn.functional.silu(conv(h))
        return self.out(h)


def main():
    shape = (8, 4, 128, 128)
    engine = DenoiseEngine(Net().cuda().eval(), shape)
    preview = Previewer(engine.latent, every=5, limit=16)
    engine.listeners.append(preview)
    final = engine.sample(Schedule(50), torch.randn(shape, device="cuda"))
    frames = preview.result()
    print(final.std().item(), [round(f.std().item(), 3) for f in frames])


if __name__ == "__main__":
    main()
