"""Clips come out of a reader as views into its frame pool."""
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
import torch.nn as nn


class ClipReader:
    """Loads yuv planes of a clip, uploads and converts them on its own stream.

    The frames returned by ``get`` are views into the pool; they stay valid until the
    next ``submit``.
    """

    def __init__(self, root, clip, height, width, device="cuda"):
        self.root, self.clip = root, clip
        self.h, self.w = height, width
        self.device = torch.device(device)
        self.decode_stream = torch.cuda.Stream(self.device)
        self.staging = torch.empty(clip, 3, height, width, dtype=torch.uint8, pin_memory=True)
        self.planes = torch.empty(clip, 3, height, width, dtype=torch.uint8, device=self.device)
        self.pool = torch.zeros(clip, 3, height, width, dtype=torch.float16, device=self.device)
        self.matrix = torch.tensor(
            [[1.0, 0.0, 1.402], [1.0, -0.344, -0.714], [1.0, 1.772, 0.0]],
            dtype=torch.float16,
            device=self.device,
        )
        self.disk = ThreadPoolExecutor(8)
        self.decode_stream.wait_stream(torch.cuda.current_stream(self.device))

    def _load(self, name, frame, slot):
        raw = np.fromfile(f"{self.root}/{name}/{frame:06d}.yuv", dtype=np.uint8)
        self.staging[slot].numpy()[...] = raw.reshape(3, self.h, self.w)

    def submit(self, name, first):
        """Start to decode frames first..first+clip-1 of one video."""
        self.decode_stream.synchronize()
        jobs = [self.disk.submit(self._load, name, first + i, i) for i in range(self.clip)]
        for job in jobs:
            job.result()
        with torch.cuda.stream(self.decode_stream):
            self.planes.copy_(self.staging, non_blocking=True)
            yuv = self.planes.to(torch.float16).div_(255)
            yuv[:, 1:].sub_(0.5)
            self.pool.copy_(torch.einsum("rc,nchw->nrhw", self.matrix, yuv))

    def get(self):
        self.decode_stream.synchronize()
        return list(self.pool.unbind(0))


def train_epoch(model, optimizer, reader, index):
    """``index``: list of (video, first frame, label)."""
    model.train()
    total = torch.zeros((), device=reader.device)
    reader.submit(*index[0][:2])
    for i, (_, _, label) in enumerate(index):
        frames = reader.get()
        clip = torch.stack([f.clone() for f in frames]).unsqueeze(0)
        if i + 1 < len(index):
            reader.submit(*index[i + 1][:2])
        target = torch.full((1,), label, dtype=torch.long, device=reader.device)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(clip.transpose(1, 2)), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return (total / len(index)).item()
