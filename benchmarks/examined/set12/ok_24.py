import torch
import torch.nn as nn


class WeightSlot:
    def __init__(self, template, device):
        self.tensors = [torch.empty_like(p, device=device) for p in template.parameters()]
        self.loaded = torch.cuda.Event()
        self.consumed = torch.cuda.Event()


class H2DOnlyBlockSwap:
    """Frozen blocks stay in pinned host memory; two device slots take turns."""

    def __init__(self, blocks: nn.ModuleList, device="cuda", num_slots=2):
        self.blocks = blocks
        self.device = torch.device(device)
        self.copy_stream = torch.cuda.Stream(self.device)
        self.masters = []
        for block in blocks:
            block.requires_grad_(False)
            self.masters.append([p.data.cpu().pin_memory() for p in block.parameters()])
        self.slots = [WeightSlot(blocks[0], self.device) for _ in range(num_slots)]
        torch.cuda.synchronize(self.device)

    def _slot(self, index):
        return self.slots[index % len(self.slots)]

    def submit(self, index):
        slot = self._slot(index)
        with torch.cuda.stream(self.copy_stream):
            self.copy_stream.wait_event(slot.consumed)
            for dst, src in zip(slot.tensors, self.masters[index]):
                dst.copy_(src, non_blocking=True)
            slot.loaded.record(self.copy_stream)

    def acquire(self, index):
        slot = self._slot(index)
        torch.cuda.current_stream(self.device).wait_event(slot.loaded)
        for p, t in zip(self.blocks[index].parameters(), slot.tensors):
            p.data = t
        return self.blocks[index]

    def release(self, index):
        self._slot(index).consumed.record(torch.cuda.current_stream(self.device))

    @torch.no_grad()
    def forward(self, x, *args):
        count = len(self.blocks)
        for index in range(min(len(self.slots), count)):
            self.submit(index)
        for index in range(count):
            x = self.acquire(index)(x, *args)
            self.release(index)
            following = index + len(self.slots)
            if following < count:
                self.submit(following)
        return x


def sample(swap, latents, timesteps, scheduler):
    for t in timesteps:
        noise = swap.forward(latents, t)
        latents = scheduler.step(noise, t, latents)
    return latents
