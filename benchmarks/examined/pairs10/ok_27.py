"""Replays a recorded sensor log through a network, block by block."""
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn


class LogReader:
    """Reads fixed-size blocks into one array that is used again and again."""

    def __init__(self, path, channels, length):
        self.path = Path(path)
        self.block = np.empty((channels, length), dtype=np.float32)

    def __iter__(self):
        with self.path.open("rb") as handle:
            while handle.readinto(memoryview(self.block).cast("B")) == self.block.nbytes:
                yield torch.from_numpy(self.block)


class Uploader:
    def __init__(self, reader):
        self.reader = reader
        self.stream = torch.cuda.Stream()

    def __iter__(self):
        for block in self.reader:
            with torch.cuda.stream(self.stream):
                device_block = block.to("cuda", non_blocking=True)
            current = torch.cuda.current_stream()
            current.wait_stream(self.stream)
            device_block.record_stream(current)
            yield device_block


def write_log(path, channels, length, blocks):
    rng = np.random.default_rng(0)
    with open(path, "wb") as handle:
        for _ in range(blocks):
            handle.write(rng.standard_normal((channels, length), dtype=np.float32).tobytes())


@torch.inference_mode()
def main(path="/tmp/sensor.log", channels=8, length=1 << 18, blocks=40):
    write_log(path, channels, length, blocks)
    net = nn.Sequential(nn.Conv1d(channels, 32, 15), nn.ReLU(), nn.Conv1d(32, 1, 15)).cuda()
    peaks = []
    for block in Uploader(LogReader(path, channels, length)):
        peaks.append(net(block.unsqueeze(0)).amax())
    print(torch.stack(peaks).cpu().tolist()[:5])


if __name__ == "__main__":
    main()
