"""Reward model scoring inside a PPO trainer: its layers are gathered just before they are used."""
import os
from collections import deque

import torch
import torch.distributed as dist
import torch.nn.functional as F


class LayerShard:
    def __init__(self, rows, cols):
        self.rows, self.cols = rows, cols
        self.local = torch.empty(rows * cols // dist.get_world_size(), device="cuda").normal_(std=0.02)


class RewardModel:
    def __init__(self, n_layers, width):
        self.layers = [LayerShard(width, width) for _ in range(n_layers)]
        self.workspace = deque(torch.empty(width * width, device="cuda") for _ in range(2))
        self.gather_stream = torch.cuda.Stream(priority=-1)
        self.gather_stream.wait_stream(torch.cuda.current_stream())

    def _gather(self, layer):
        space = self.workspace[0]
        self.workspace.rotate(1)
        done = torch.cuda.Event()
        with torch.cuda.stream(self.gather_stream):
            dist.all_gather_into_tensor(space, layer.local)
            done.record(self.gather_stream)
        return space.view(layer.rows, layer.cols), done

    @torch.inference_mode()
    def score(self, hidden):
        upcoming = self._gather(self.layers[0])
        for i in range(len(self.layers)):
            weight, done = upcoming
            if i + 1 < len(self.layers):
                upcoming = self._gather(self.layers[i + 1])
            torch.cuda.current_stream().wait_event(done)
            hidden = F.silu(F.linear(hidden, weight))
        return hidden.mean(dim=-1)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    reward = RewardModel(n_layers=32, width=5120)
    baseline = torch.zeros((), device="cuda")
    for _ in range(50):
        rollout = torch.randn(64, 5120, device="cuda")
        r = reward.score(rollout)
        baseline.lerp_(r.mean(), 0.1)
    print(baseline.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
