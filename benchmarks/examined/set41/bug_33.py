"""Decode latents tile by tile and hand raw frames to an ffmpeg child process."""
import argparse
import queue
import subprocess
import threading
from dataclasses import dataclass
from typing import List, Optional, Tuple

import torch
import torch.nn as nn


@dataclass
class OutputSpec:
    path: str
    width: int = 1344
    height: int = 768
    fps: int = 24
    chunk: int = 17
    slots: int = 3
    crf: int = 18

    def command(self) -> List[str]:
        return [
            "ffmpeg", "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24",
            "-s", f"{self.width}x{self.height}", "-r", str(self.fps), "-i", "-",
            "-c:v", "libx264", "-crf", str(self.crf), self.path,
        ]


class PinnedRing:
    def __init__(self, spec: OutputSpec):
        shape = (spec.chunk, spec.height, spec.width, 3)
        self.slots = [torch.empty(shape, dtype=torch.uint8, pin_memory=True) for _ in range(spec.slots)]
        self.free: "queue.Queue[int]" = queue.Queue()
        for i in range(spec.slots):
            self.free.put(i)


class MuxThread(threading.Thread):
    def __init__(self, spec: OutputSpec, ring: PinnedRing):
        super().__init__(daemon=True)
        self.spec = spec
        self.ring = ring
        self.inbox: "queue.Queue[Optional[Tuple[int, int]]]" = queue.Queue()
        self.error: Optional[BaseException] = None
        self.written = 0

    def run(self) -> None:
        try:
            proc = subprocess.Popen(self.spec.command(), stdin=subprocess.PIPE)
            while True:
                item = self.inbox.get()
                if item is None:
                    break
                slot, frames = item
                proc.stdin.write(self.ring.slots[slot][:frames].numpy().tobytes())
                self.written += frames
                self.ring.free.put(slot)
            proc.stdin.close()
            proc.wait()
        except BaseException as e:  # surfaced by close()
            self.error = e


class ChunkUploader:
    """Moves finished chunks from the device to the ring."""

    def __init__(self, spec: OutputSpec, ring: PinnedRing, mux: MuxThread):
        self.spec, self.ring, self.mux = spec, ring, mux
        self.copy_stream = torch.cuda.Stream()
        self.last = torch.cuda.Event()

    def submit(self, rgb: torch.Tensor) -> None:
        slot = self.ring.free.get()
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            n = rgb.shape[0]
            self.ring.slots[slot][:n].copy_(rgb, non_blocking=True)
            rgb.record_stream(self.copy_stream)
            self.last.record()
        self.mux.inbox.put((slot, n))


class ChunkDecoder(nn.Module):
    def __init__(self, ch: int = 24, width: int = 96):
        super().__init__()
        self.stem = nn.Conv2d(ch, width, 3, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(4))
        self.rgb = nn.Conv2d(width, 3, 1)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        h = self.stem(z)
        for i, b in enumerate(self.body):
            h = nn.functional.interpolate(h, scale_factor=2, mode="nearest")
            h = nn.functional.silu(b(h))
        x = self.rgb(h).clamp(-1, 1)
        return x.add(1).mul(127.5).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


class Exporter:
    def __init__(self, spec: OutputSpec, device: torch.device):
        self.spec = spec
        self.device = device
        self.decoder = ChunkDecoder().to(device, torch.float16).eval()
        self.ring = PinnedRing(spec)
        self.mux = MuxThread(spec, self.ring)
        self.uploader = ChunkUploader(spec, self.ring, self.mux)

    def spans(self, total: int) -> List[Tuple[int, int]]:
        c = self.spec.chunk
        return [(s, min(s + c, total)) for s in range(0, total, c)]

    @torch.inference_mode()
    def export(self, latents: torch.Tensor) -> int:
        self.mux.start()
        for lo, hi in self.spans(latents.shape[0]):
            rgb = self.decoder(latents[lo:hi])
            self.uploader.submit(rgb)
        return self.close()

    def close(self) -> int:
        self.mux.inbox.put(None)
        self.mux.join()
        if self.mux.error is not None:
            raise self.mux.error
        return self.mux.written


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("out")
    ap.add_argument("--frames", type=int, default=209)
    args = ap.parse_args()
    spec = OutputSpec(args.out)
    dev = torch.device("cuda")
    z = torch.randn(args.frames, 24, spec.height // 16, spec.width // 16, device=dev, dtype=torch.float16)
    print(Exporter(spec, dev).export(z), "frames")


if __name__ == "__main__":
    main()
