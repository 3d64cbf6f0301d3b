"""Latent diffusion training: a frozen encoder fills latent slots beside the denoiser."""
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class LatentSlot:
    latent: torch.Tensor
    encoded: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    consumed: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class LatentEncoder:
    def __init__(self, batch, channels=4, size=32, slots=2):
        self.vae = nn.Sequential(nn.Conv2d(3, 128, 4, 4), nn.SiLU(), nn.Conv2d(128, channels, 4, 2, 1)).cuda()
        self.vae.requires_grad_(False)
        self.slots = [LatentSlot(torch.zeros(batch, channels, size, size, device="cuda")) for _ in range(slots)]
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    @torch.no_grad()
    def launch(self, slot, images):
        self.stream.wait_event(slot.consumed)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            slot.latent.copy_(self.vae(images)).mul_(0.18215)
            slot.encoded.record(self.stream)
        images.record_stream(self.stream)

    def slot(self, step):
        return self.slots[step % len(self.slots)]


class Denoiser(nn.Module):
    def __init__(self, channels=4, width=256):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(channels, width, 3, padding=1), nn.SiLU(),
                                 nn.Conv2d(width, width, 3, padding=1), nn.SiLU(),
                                 nn.Conv2d(width, channels, 3, padding=1))

    def forward(self, x):
        return self.net(x)


def main(steps=2000, batch=32):
    encoder = LatentEncoder(batch)
    model = Denoiser().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(steps):
        images = torch.rand(batch, 3, 256, 256, device="cuda")
        slot = encoder.slot(step)
        current = torch.cuda.current_stream()
        current.wait_event(slot.encoded)
        encoder.launch(slot, images)
        noise = torch.randn_like(slot.latent)
        loss = F.mse_loss(model(slot.latent + noise), noise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        slot.consumed.record(current)


if __name__ == "__main__":
    main()
