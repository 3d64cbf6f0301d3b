"""Replicate a scorer over two GPUs and gather the scores on the first."""
import torch
from torch import nn


class Scorer(nn.Module):
    def __init__(self, width=2048, depth=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return self.out(x).squeeze(-1)


class Replica:
    def __init__(self, state, device):
        self.device = torch.device(device)
        self.net = Scorer()
        self.net.load_state_dict(state)
        self.net.to(self.device).eval()
        self.side = torch.cuda.Stream(device=self.device)
        torch.cuda.synchronize(self.device)

    def start(self, shard):
        x = shard.to(self.device, non_blocking=True)
        self.side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.side):
            scores = self.net(x)
        x.record_stream(self.side)
        return scores

    def join(self, scores):
        here = torch.cuda.current_stream(self.device)
        here.wait_stream(self.side)
        scores.record_stream(here)
        return scores


class Ensemble:
    def __init__(self, devices=("cuda:0", "cuda:1"), home="cuda:0"):
        torch.manual_seed(0)
        state = Scorer().state_dict()
        self.replicas = [Replica(state, d) for d in devices]
        self.home = torch.device(home)

    @torch.inference_mode()
    def __call__(self, batch):
        shards = batch.chunk(len(self.replicas))
        running = [r.start(s) for r, s in zip(self.replicas, shards)]
        parts = []
        for replica, scores in zip(self.replicas, running):
            done = replica.join(scores)
            parts.append(done.to(self.home, non_blocking=True))
        return torch.cat(parts)


def main(batches=6, rows=4096, width=2048):
    torch.cuda.set_device(0)
    model = Ensemble()
    best = torch.full((), float("-inf"), device="cuda:0")
    for _ in range(batches):
        x = torch.randn(rows, width, device="cuda:0")
        best = torch.maximum(best, model(x).max())
    print("best score", best.item())


if __name__ == "__main__":
    main()
