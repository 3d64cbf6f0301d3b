import torch

from chunks import device_chunks


def brightness(frames):
    return torch.stack([c.mean() for c in device_chunks(frames)]).tolist()


def motion_energy(frames):
    energy = []
    prev = None
    for chunk in device_chunks(frames):
        if prev is not None:
            energy.append((chunk - prev).abs().mean())
        prev = chunk
    return torch.stack(energy).tolist()


def synthetic(count, height, width):
    gen = torch.Generator().manual_seed(3)
    base = torch.rand(3, height, width, generator=gen)
    return [base.roll(k, dims=2) for k in range(count)]


if __name__ == "__main__":
    clip = synthetic(90, 1080, 1920)
    print(brightness(clip)[:3])
    print(motion_energy(clip)[:3])
