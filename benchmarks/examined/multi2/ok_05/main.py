import torch
from torch import nn

from capture import Replayable
from config import GraphConfig
from host_side import HostSlots


class Pooler(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.mix = nn.Conv1d(cfg.frames, 64, 3, padding=1)
        self.out = nn.Linear(64, 1)

    def forward(self, x):
        return self.out(torch.relu(self.mix(x)).amax(-1)).squeeze(-1)


@torch.inference_mode()
def main(turns=50):
    cfg = GraphConfig().check()
    net = Pooler(cfg).cuda().eval()
    work = torch.cuda.Stream()
    work.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(work):
        step = Replayable(net, torch.zeros(cfg.shape, device="cuda"))
        host = HostSlots(cfg)
        means = []
        for turn in range(turns):
            slot, old = host.fill(turn, seed=turn)
            if old is not None:
                means.append(old)
            host.deposit(turn, step.load(slot).run())
        for i in range(cfg.host_slots):
            tail = host.harvest(i)
            if tail is not None:
                means.append(tail)
    print(len(means), sum(means) / len(means))


if __name__ == "__main__":
    main()
