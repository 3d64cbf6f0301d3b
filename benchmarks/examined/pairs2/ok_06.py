"""Frozen teacher with weights sharded over the data-parallel group."""
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F


class ShardedTeacher:
    NUM_SLOTS = 2

    def __init__(self, num_layers, dim, device):
        self.world = dist.get_world_size()
        self.dim = dim
        self.shards = [torch.randn(dim * dim // self.world, device=device) for _ in range(num_layers)]
        self.full = [torch.empty(dim * dim, device=device) for _ in range(self.NUM_SLOTS)]
        self.gathered = [torch.cuda.Event() for _ in range(self.NUM_SLOTS)]
        self.consumed = [torch.cuda.Event() for _ in range(self.NUM_SLOTS)]
        self.gather_stream = torch.cuda.Stream(device)
        self.gather_stream.wait_stream(torch.cuda.current_stream())

    def _unshard(self, layer):
        slot = layer % self.NUM_SLOTS
        with torch.cuda.stream(self.gather_stream):
            self.gather_stream.wait_event(self.consumed[slot])
            dist.all_gather_into_tensor(self.full[slot], self.shards[layer])
            self.gathered[slot].record()

    def _apply(self, layer, x):
        slot = layer % self.NUM_SLOTS
        torch.cuda.current_stream().wait_event(self.gathered[slot])
        out = F.relu(F.linear(x, self.full[slot].view(self.dim, self.dim)))
        self.consumed[slot].record()
        return out

    @torch.no_grad()
    def __call__(self, x):
        self._unshard(0)
        for layer in range(len(self.shards)):
            if layer + 1 < len(self.shards):
                self._unshard(layer + 1)
            x = self._apply(layer, x)
        return x


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    teacher = ShardedTeacher(num_layers=13, dim=1024, device=device)
    student = torch.nn.Linear(1024, 1024).to(device)
    opt = torch.optim.Adam(student.parameters())
    for _ in range(100):
        x = torch.randn(256, 1024, device=device)
        loss = F.mse_loss(student(x), teacher(x))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
