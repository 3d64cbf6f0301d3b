"""Frame scoring with a download thread; the hand-over carries an event."""
import queue
import threading
from dataclasses import dataclass
from typing import Callable, Dict, Optional

import torch
import torch.nn as nn


@dataclass
class Job:
    index: int
    scores: torch.Tensor
    produced: torch.cuda.Event


class Downloader(threading.Thread):
    def __init__(self, device: torch.device, sink: Callable[[int, float], None]):
        super().__init__(daemon=True)
        self.device = device
        self.sink = sink
        self.jobs: "queue.Queue[Optional[Job]]" = queue.Queue(maxsize=8)

    def submit(self, index: int, scores: torch.Tensor) -> None:
        produced = torch.cuda.Event()
        produced.record(torch.cuda.current_stream(self.device))
        self.jobs.put(Job(index, scores, produced))

    def close(self) -> None:
        self.jobs.put(None)
        self.join()

    def run(self) -> None:
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(device=self.device)
        staging: Dict[torch.Size, torch.Tensor] = {}
        with torch.cuda.stream(stream):
            while True:
                job = self.jobs.get()
                if job is None:
                    return
                host = staging.get(job.scores.shape)
                if host is None:
                    host = torch.empty(job.scores.shape, dtype=job.scores.dtype, pin_memory=True)
                    staging[job.scores.shape] = host
                stream.wait_event(job.produced)
                host.copy_(job.scores, non_blocking=True)
                stream.synchronize()
                self.sink(job.index, float(host.numpy().max()))


class Scorer:
    def __init__(self, device: torch.device):
        self.device = device
        self.net = nn.Sequential(
            nn.Conv2d(3, 32, 5, stride=4), nn.ReLU(), nn.Conv2d(32, 1, 3, stride=2)
        ).to(device).eval()
        self.results: Dict[int, float] = {}
        self.downloader = Downloader(device, self.results.__setitem__)
        self.downloader.start()

    @torch.inference_mode()
    def push(self, index: int, frame: torch.Tensor) -> None:
        scores = torch.sigmoid(self.net(frame.to(self.device))).flatten()
        self.downloader.submit(index, scores)

    def finish(self) -> Dict[int, float]:
        self.downloader.close()
        return dict(sorted(self.results.items()))


def main() -> None:
    device = torch.device("cuda", 0)
    scorer = Scorer(device)
    for i in range(64):
        scorer.push(i, torch.rand(1, 3, 1080, 1920))
    print(list(scorer.finish().items())[:5])


if __name__ == "__main__":
    main()
