from typing import Dict, List, Tuple

import torch
import torch.nn as nn


class StepTracker:
    """Releases entries a fixed number of steps after they were dispatched."""

    def __init__(self, delay: int = 2):
        self.delay = delay
        self.step = 0
        self.pending: List[Tuple[int, str]] = []

    def dispatch(self, key: str) -> None:
        self.pending.append((self.step + self.delay, key))

    def advance(self) -> List[str]:
        self.step += 1
        done = [k for due, k in self.pending if due <= self.step]
        self.pending = [(due, k) for due, k in self.pending if due > self.step]
        return done


class ECCPUWorker:
    """Copies encoder outputs into pinned host entries."""

    def __init__(self):
        self.save_stream = torch.cuda.Stream()
        self.entries: Dict[str, torch.Tensor] = {}

    def save(self, mm_hash: str, encoder_output: torch.Tensor) -> None:
        entry = torch.empty(encoder_output.shape, dtype=encoder_output.dtype, pin_memory=True)
        self.save_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.save_stream):
            entry.copy_(encoder_output, non_blocking=True)
        encoder_output.record_stream(self.save_stream)
        self.entries[mm_hash] = entry


class ECCPUConnector:
    def __init__(self, store_path: str):
        self.worker = ECCPUWorker()
        self.tracker = StepTracker()
        self.store_path = store_path
        self.ready: Dict[str, str] = {}

    def save_caches(self, outputs: Dict[str, torch.Tensor]) -> None:
        for mm_hash, output in outputs.items():
            self.worker.save(mm_hash, output)
            self.tracker.dispatch(mm_hash)

    def get_finished(self) -> None:
        for mm_hash in self.tracker.advance():
            entry = self.worker.entries.pop(mm_hash)
            path = f"{self.store_path}/{mm_hash}.bin"
            entry.numpy().tofile(path)
            self.ready[mm_hash] = path


class Engine:
    def __init__(self, store_path: str, hidden: int = 2048):
        self.encoder = nn.Sequential(nn.Linear(1176, hidden), nn.GELU(), nn.Linear(hidden, hidden)).cuda().eval()
        self.decoder = nn.Sequential(*[nn.Linear(hidden, hidden) for _ in range(16)]).cuda().eval()
        self.connector = ECCPUConnector(store_path)

    @torch.inference_mode()
    def step(self, images: Dict[str, torch.Tensor], hidden: torch.Tensor) -> torch.Tensor:
        outputs = {}
        for mm_hash, pixels in images.items():
            pixels = pixels.pin_memory().cuda(non_blocking=True)
            outputs[mm_hash] = self.encoder(pixels)
            hidden = hidden + outputs[mm_hash].mean(dim=0, keepdim=True)
        hidden = self.decoder(hidden)
        self.connector.save_caches(outputs)
        self.connector.get_finished()
        return hidden


def serve(store_path: str, steps: int = 64) -> Dict[str, str]:
    engine = Engine(store_path)
    hidden = torch.zeros(256, 2048, device="cuda")
    for i in range(steps):
        images = {f"img-{i}": torch.randn(4096, 1176)}
        hidden = engine.step(images, hidden)
    for _ in range(2):
        hidden = engine.step({}, hidden)
    torch.cuda.synchronize()
    return engine.connector.ready
