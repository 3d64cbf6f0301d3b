import torch
from torch import nn
import torch.nn.functional as F

from lending import Beside


class PreviewDecoder(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.rgb = nn.Conv2d(channels, 3, 1)

    def forward(self, z):
        return torch.sigmoid(F.interpolate(self.rgb(z), scale_factor=4))


class PreviewTap:
    """Callback of the sampler: decodes every k-th latent for the gallery."""

    def __init__(self, decoder, every=5):
        self.decoder = decoder
        self.every = every
        self.stream = torch.cuda.Stream()
        self.frames = []

    def __call__(self, step, state):
        if step % self.every:
            return
        with Beside(self.stream, state) as s:
            small = (self.decoder(state["x0"]) * 255).to(torch.uint8)
            host = torch.empty(small.shape, dtype=small.dtype, pin_memory=True)
            host.copy_(small, non_blocking=True)
            self.frames.append((step, host, s.record_event()))

    def gallery(self):
        for step, host, event in self.frames:
            event.synchronize()
            yield step, host.numpy()
