"""Layer streaming: weights live in pinned memory, two fixed device slots are filled in turn."""
import torch
import torch.nn.functional as F


class Slot:
    def __init__(self, dim, device):
        self.weight = torch.empty(dim, dim, device=device)
        self.bias = torch.empty(dim, device=device)
        self.loaded = torch.cuda.Event()
        self.released = torch.cuda.Event()


class StreamedStack:
    def __init__(self, dim, depth, device="cuda"):
        self.host = []
        for _ in range(depth):
            w = torch.randn(dim, dim).mul_(dim ** -0.5).pin_memory()
            self.host.append((w, torch.zeros(dim).pin_memory()))
        self.slots = [Slot(dim, device) for _ in range(2)]
        self.copy_stream = torch.cuda.Stream(device=device)
        self.cursor = 0
        for s in self.slots:
            s.released.record()

    def _issue(self, i):
        slot = self.slots[self.cursor % 2]
        self.cursor += 1
        w, b = self.host[i]
        with torch.cuda.stream(self.copy_stream):
            self.copy_stream.wait_event(slot.released)
            slot.weight.copy_(w, non_blocking=True)
            slot.bias.copy_(b, non_blocking=True)
            slot.loaded.record(self.copy_stream)
        return slot

    def _apply(self, slot, x):
        torch.cuda.current_stream().wait_event(slot.loaded)
        y = F.gelu(F.linear(x, slot.weight, slot.bias))
        slot.released.record()
        return y

    @torch.inference_mode()
    def __call__(self, x):
        depth = len(self.host)
        upcoming = self._issue(0)
        for i in range(depth):
            slot, upcoming = upcoming, None
            if i + 1 < depth:
                upcoming = self._issue(i + 1)
            x = x + self._apply(slot, x)
        return x


class Sampler:
    def __init__(self, stack, sigmas):
        self.stack = stack
        self.sigmas = sigmas

    def run(self, latent):
        trace = []
        for cur, nxt in zip(self.sigmas, self.sigmas[1:]):
            den = self.stack(latent / (1.0 + cur))
            latent = latent + (latent - den) / max(cur, 1e-4) * (nxt - cur)
            trace.append(latent.std())
        return latent, torch.stack(trace)


def main():
    torch.manual_seed(0)
    stack = StreamedStack(4096, 16)
    sampler = Sampler(stack, [8.0, 4.0, 2.0, 1.0, 0.0])
    latent, trace = sampler.run(torch.randn(1024, 4096, device="cuda"))
    print(trace.tolist(), latent.mean().item())


if __name__ == "__main__":
    main()
