"""Frame server callback: conversion, inference and readback run on three streams."""
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import numpy as np
import torch
from torch import nn


class Upscaler(nn.Module):
    def __init__(self, scale=2, width=48):
        super().__init__()
        self.head = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.Sequential(*[nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU()) for _ in range(4)])
        self.tail = nn.Conv2d(width, 3 * scale * scale, 3, padding=1)
        self.shuffle = nn.PixelShuffle(scale)

    def forward(self, x):
        h = self.head(x)
        return self.shuffle(self.tail(h + self.body(h)))


class FrameFilter:
    def __init__(self, model, device="cuda"):
        self.device = torch.device(device)
        self.model = model.to(self.device).eval()
        self.to_tensor_lock = Lock()
        self.inference_lock = Lock()
        self.to_frame_lock = Lock()
        self.to_tensor_stream = torch.cuda.Stream(self.device)
        self.inference_stream = torch.cuda.Stream(self.device)
        self.to_frame_stream = torch.cuda.Stream(self.device)
        torch.cuda.synchronize(self.device)

    def _to_tensor(self, planes):
        host = torch.from_numpy(np.stack(planes))
        return host.to(self.device).unsqueeze(0).float().div_(255.0)

    def _to_planes(self, tensor):
        image = tensor.squeeze(0).clamp(0, 1).mul(255.0).round().to(torch.uint8)
        return [plane.numpy() for plane in image.cpu()]

    @torch.inference_mode()
    def __call__(self, n, planes):
        with self.to_tensor_lock, torch.cuda.stream(self.to_tensor_stream):
            img = self._to_tensor(planes)
            self.to_tensor_stream.synchronize()
        with self.inference_lock, torch.cuda.stream(self.inference_stream):
            out = self.model(img)
            self.inference_stream.synchronize()
        with self.to_frame_lock, torch.cuda.stream(self.to_frame_stream):
            result = self._to_planes(out)
        return n, result


def serve(frames, threads=4):
    flt = FrameFilter(Upscaler())
    done = {}
    with ThreadPoolExecutor(threads) as pool:
        for n, planes in pool.map(lambda item: flt(*item), enumerate(frames)):
            done[n] = planes
    return [done[n] for n in sorted(done)]


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    clip = [[rng.integers(0, 255, (270, 480), dtype=np.uint8) for _ in range(3)] for _ in range(32)]
    out = serve(clip)
    print(len(out), out[0][0].shape)
