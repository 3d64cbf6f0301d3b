import os
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn


@dataclass
class ImageInfo:
    key: str
    npz_path: str
    size: tuple
    latents: torch.Tensor = None
    latents_flipped: torch.Tensor = None


class Encoder(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 64, 3, 2, 1), nn.SiLU(), nn.Conv2d(64, 128, 3, 2, 1), nn.SiLU(), nn.Conv2d(128, 2 * channels, 3, 2, 1)
        )

    def encode(self, x):
        mean, logvar = self.net(x).chunk(2, dim=1)
        return mean + torch.exp(0.5 * logvar.clamp(-30, 20)) * torch.randn_like(mean)


def save_latents_to_disk(path, latents, original_size, flipped=None):
    arrays = {"latents": latents.float().numpy(), "original_size": np.array(original_size)}
    if flipped is not None:
        arrays["latents_flipped"] = flipped.float().numpy()
    np.savez(path, **arrays)


class LatentsCachingStrategy:
    def __init__(self, vae, directory, cache_to_disk, flip_aug):
        self.vae = vae
        self.directory = directory
        self.cache_to_disk = cache_to_disk
        self.flip_aug = flip_aug
        self.dtype = torch.float32

    @torch.no_grad()
    def cache_batch_latents(self, infos, images):
        device = next(self.vae.parameters()).device
        img = torch.stack(images).pin_memory().to(device, dtype=self.dtype, non_blocking=True)
        latents = self.vae.encode(img).to("cpu", non_blocking=True)
        if self.flip_aug:
            flipped = self.vae.encode(torch.flip(img, dims=[3])).to("cpu", non_blocking=True)
        else:
            flipped = [None] * len(infos)
        for info, latent, flip in zip(infos, latents, flipped):
            if self.cache_to_disk:
                save_latents_to_disk(info.npz_path, latent, info.size, flip)
            else:
                info.latents = latent
                info.latents_flipped = flip

    def run(self, infos, load_image, batch_size=4):
        for start in range(0, len(infos), batch_size):
            batch = infos[start : start + batch_size]
            self.cache_batch_latents(batch, [load_image(i) for i in batch])


def main():
    directory = "/tmp/latents"
    os.makedirs(directory, exist_ok=True)
    vae = Encoder().cuda().eval()
    infos = [ImageInfo(f"img_{i}", os.path.join(directory, f"img_{i}.npz"), (512, 512)) for i in range(64)]
    strategy = LatentsCachingStrategy(vae, directory, cache_to_disk=True, flip_aug=True)
    strategy.run(infos, lambda info: torch.rand(3, 512, 512) * 2 - 1)
    print(np.load(infos[0].npz_path)["latents"].shape)


if __name__ == "__main__":
    main()
