import torch
from torch import nn

from arena import LatentArena
from service import EncodeService
from spill import Spiller

WIDTH = 1 << 16
JOBS = 200


class Encoder(nn.Module):
    def __init__(self, width, hidden=1024):
        super().__init__()
        self.a = nn.Linear(hidden, hidden)
        self.b = nn.Linear(hidden, width)

    def forward(self, x):
        return self.b(torch.relu(self.a(x))).flatten()


def main():
    torch.cuda.set_device(0)
    arena = LatentArena(rows=8, width=WIDTH)
    spiller = Spiller(arena, capacity=JOBS)
    service = EncodeService(Encoder(WIDTH).cuda().bfloat16(), arena, spiller)
    for job in range(JOBS):
        x = torch.randn(1, 1024, device="cuda", dtype=torch.bfloat16)
        service.submit(f"job-{job}", x)
    out = service.drain()
    print(len(out), max(out.values()), arena.idle)


if __name__ == "__main__":
    main()
