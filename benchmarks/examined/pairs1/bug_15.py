"""Live thumbnails for an image generation service."""
import torch
from torch import nn


class ThumbnailWorker:
    def __init__(self, decoder):
        self.decoder = decoder
        self.side = torch.cuda.Stream()
        self.frames = []

    def push(self, sample):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            rgb = self.decoder(sample)
            frame = rgb.mul(255).to(torch.uint8).to("cpu", non_blocking=True)
            event = torch.cuda.Event()
            event.record()
        self.frames.append((frame, event))

    def pop_all(self):
        out = []
        for frame, event in self.frames:
            event.synchronize()
            out.append(frame.numpy().copy())
        self.frames = []
        return out


class EulerSampler:
    def __init__(self, denoiser, worker):
        self.denoiser = denoiser
        self.worker = worker

    @torch.inference_mode()
    def sample(self, shape, sigmas):
        x = torch.randn(shape, device="cuda") * sigmas[0]
        for i in range(len(sigmas) - 1):
            d = (x - self.denoiser(x)) / sigmas[i]
            x.add_(d, alpha=sigmas[i + 1] - sigmas[i])
            if i % 4 == 3:
                self.worker.push(x)
        return x.cpu()


def main():
    net = nn.Sequential(nn.Conv2d(16, 128, 3, padding=1), nn.GELU(), nn.Conv2d(128, 16, 3, padding=1)).cuda()
    dec = nn.Sequential(nn.Conv2d(16, 3, 1), nn.Upsample(scale_factor=8)).cuda()
    worker = ThumbnailWorker(dec)
    sampler = EulerSampler(net, worker)
    sigmas = [14.0 * (1 - i / 40) + 0.03 for i in range(41)]
    for _ in range(3):
        sampler.sample((4, 16, 96, 96), sigmas)
        print(len(worker.pop_all()))


if __name__ == "__main__":
    main()
