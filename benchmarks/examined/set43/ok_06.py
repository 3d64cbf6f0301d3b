import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class Slot:
    def __init__(self, numel: int, device):
        self.flat = torch.empty(numel, device=device)
        self.gathered = torch.cuda.Event()
        self.released = torch.cuda.Event()
        self.released.record()


class ShardedLinear(nn.Module):
    def __init__(self, width: int, device):
        super().__init__()
        self.width = width
        self.shard = torch.randn(width * width // dist.get_world_size(), device=device) * 0.02
        self.flat = None

    def forward(self, x):
        return x + F.silu(F.linear(x, self.flat.view(self.width, self.width)))


class Overlap:
    """Attaches hooks that gather the next unit while this one computes."""

    def __init__(self, units, numel: int, device, slots: int = 2):
        self.units = list(units)
        self.slots = [Slot(numel, device) for _ in range(slots)]
        self.stream = torch.cuda.Stream(device=device)
        for index, unit in enumerate(self.units):
            unit.register_forward_pre_hook(self._pre(index))
            unit.register_forward_hook(self._post(index))

    def _slot(self, index: int) -> Slot:
        return self.slots[index % len(self.slots)]

    def unshard(self, index: int):
        if index >= len(self.units):
            return
        slot = self._slot(index)
        self.stream.wait_event(slot.released)
        with torch.cuda.stream(self.stream):
            dist.all_gather_into_tensor(slot.flat, self.units[index].shard)
            slot.gathered.record()

    def _pre(self, index: int):
        def hook(module, args):
            slot = self._slot(index)
            torch.cuda.current_stream().wait_event(slot.gathered)
            module.flat = slot.flat
            self.unshard(index + 1)
        return hook

    def _post(self, index: int):
        def hook(module, args, output):
            module.flat = None
            self._slot(index).released.record()
            return output
        return hook

    def begin(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        self.unshard(0)


@torch.no_grad()
def main():
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    width = 2048
    model = nn.Sequential(*[ShardedLinear(width, device) for _ in range(8)])
    overlap = Overlap(model, width * width, device)
    for _ in range(5):
        overlap.begin()
        y = model(torch.randn(1024, width, device=device))
    print(dist.get_rank(), y.norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
