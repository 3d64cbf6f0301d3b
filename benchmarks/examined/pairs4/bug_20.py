"""Audio augmentation helpers that run in the background of the trainer."""
import functools

import torch
from torch import nn


class Background:
    def __init__(self):
        self.stream = torch.cuda.Stream()

    def task(self, method):
        @functools.wraps(method)
        def call(*args):
            main = torch.cuda.current_stream()
            self.stream.wait_stream(main)
            with torch.cuda.stream(self.stream):
                out = method(*args)
            self.stream.wait_stream(main)
            out.record_stream(main)
            return out

        return call


background = Background()


@background.task
def add_reverb(wave, impulse):
    n = wave.shape[-1] + impulse.shape[-1] - 1
    spec = torch.fft.rfft(wave, n) * torch.fft.rfft(impulse, n)
    return torch.fft.irfft(spec, n)[..., : wave.shape[-1]].contiguous()


@background.task
def add_noise(wave, snr_db=10.0):
    power = wave.pow(2).mean(-1, keepdim=True)
    scale = (power / 10 ** (snr_db / 10)).sqrt()
    return wave + scale * torch.randn_like(wave)


class Tagger(nn.Module):
    def __init__(self, classes=20):
        super().__init__()
        self.conv = nn.Conv1d(1, 64, 400, 160)
        self.head = nn.Linear(64, classes)

    def forward(self, wave):
        h = self.conv(wave[:, None]).relu().mean(-1)
        return self.head(h)


def main():
    model = Tagger().cuda()
    opt = torch.optim.Adam(model.parameters())
    impulse = torch.exp(-torch.linspace(0, 8, 4000, device="cuda"))
    for _ in range(300):
        wave = torch.randn(64, 48000, device="cuda")
        target = torch.randint(0, 20, (64,), device="cuda")
        loss = nn.functional.cross_entropy(model(add_noise(add_reverb(wave, impulse))), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
