"""Low-VRAM runner with a fixed ring of device slots."""
import torch
import torch.nn.functional as F


class Slot:
    def __init__(self, shape, dtype, device):
        self.data = torch.zeros(shape, dtype=dtype, device=device)
        self.ready = torch.cuda.Event()
        self.free = torch.cuda.Event()


class SlotRing:
    def __init__(self, count, shape, dtype, device):
        self.stream = torch.cuda.Stream(device)
        self.slots = [Slot(shape, dtype, device) for _ in range(count)]
        for slot in self.slots:
            slot.free.record()
        self.stream.wait_stream(torch.cuda.current_stream(device))
        self.cursor = 0

    def fill(self, host):
        slot = self.slots[self.cursor]
        self.cursor = (self.cursor + 1) % len(self.slots)
        self.stream.wait_event(slot.free)
        with torch.cuda.stream(self.stream):
            slot.data.copy_(host, non_blocking=True)
            slot.ready.record()
        return slot


class StreamedStack(torch.nn.Module):
    def __init__(self, depth, features, dtype, device):
        super().__init__()
        self.host = [torch.randn(features, features, dtype=dtype).pin_memory() for _ in range(depth)]
        self.ring = SlotRing(2, (features, features), dtype, device)

    def forward(self, x):
        nxt = self.ring.fill(self.host[0])
        for i in range(len(self.host)):
            slot = nxt
            if i + 1 < len(self.host):
                nxt = self.ring.fill(self.host[i + 1])
            torch.cuda.current_stream().wait_event(slot.ready)
            x = F.silu(F.linear(x, slot.data))
            slot.free.record()
        return x


class Runner:
    def __init__(self, depth=6, features=4096, dtype=torch.float16, device="cuda"):
        self.model = StreamedStack(depth, features, dtype, device)
        self.features, self.dtype, self.device = features, dtype, device

    @torch.no_grad()
    def execute(self, seeds, steps=4):
        out = []
        for seed in seeds:
            gen = torch.Generator(device=self.device).manual_seed(seed)
            latent = torch.randn(
                512, self.features, generator=gen, device=self.device, dtype=self.dtype
            )
            for _ in range(steps):
                latent = latent - 0.1 * self.model(latent)
            out.append(latent)
        return torch.stack(out)


if __name__ == "__main__":
    print(Runner().execute([1, 2, 3]).float().mean().item())
