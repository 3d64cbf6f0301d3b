from __future__ import annotations

from collections import deque

import cvcuda
import numpy as np
import torch


class Preprocessor:
    """Resizes and normalises on a CV-CUDA stream that torch knows as well."""

    def __init__(self, size: tuple[int, int], device: int = 0) -> None:
        self.size = size
        self.device = torch.device("cuda", device)
        self.cv_stream = cvcuda.Stream()
        self.stream = torch.cuda.ExternalStream(self.cv_stream.handle, self.device)

    def __call__(self, frames: torch.Tensor) -> tuple[torch.Tensor, torch.cuda.Event]:
        n = frames.shape[0]
        h, w = self.size
        with self.cv_stream, torch.cuda.stream(self.stream):
            gpu = frames.to(self.device, non_blocking=True)
            nhwc = cvcuda.as_tensor(gpu, "NHWC")
            small = cvcuda.resize(nhwc, (n, h, w, 3), cvcuda.Interp.LINEAR)
            scaled = cvcuda.convertto(small, np.float32, scale=1 / 255.0)
            nchw = cvcuda.reformat(scaled, "NCHW")
            out = torch.as_tensor(nchw.cuda(), device=self.device).clone()
            event = self.stream.record_event()
        return out, event


class Detector:
    def __init__(self, net: torch.nn.Module, size: tuple[int, int], lookahead: int = 2) -> None:
        self.net = net
        self.pre = Preprocessor(size)
        self.lookahead = lookahead
        self.ready: deque[tuple[torch.Tensor, torch.cuda.Event]] = deque()

    def _next(self) -> list[float]:
        batch, event = self.ready.popleft()
        stream = torch.cuda.current_stream()
        stream.wait_event(event)
        batch.record_stream(stream)
        return self.net(batch).flatten(1).amax(dim=1).tolist()

    @torch.inference_mode()
    def run(self, clips) -> list[float]:
        scores: list[float] = []
        for clip in clips:
            self.ready.append(self.pre(clip))
            if len(self.ready) > self.lookahead:
                scores += self._next()
        while self.ready:
            scores += self._next()
        return scores


def main() -> None:
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, stride=2), torch.nn.ReLU(), torch.nn.Conv2d(32, 4, 3, stride=2)
    ).cuda()
    clips = (torch.randint(0, 256, (8, 720, 1280, 3), dtype=torch.uint8).pin_memory() for _ in range(12))
    print(sum(Detector(net, (224, 224)).run(clips)))


if __name__ == "__main__":
    main()
