import concurrent.futures
import hashlib
from typing import Dict, List

import torch


class PinnedPool:
    def __init__(self):
        self._bufs: Dict[str, torch.Tensor] = {}

    def view_like(self, key: str, src: torch.Tensor) -> torch.Tensor:
        buf = self._bufs.get(key)
        if buf is None or buf.numel() < src.numel() or buf.dtype != src.dtype:
            buf = torch.empty(src.numel(), dtype=src.dtype, pin_memory=True)
            self._bufs[key] = buf
        return buf[: src.numel()].view(src.shape)


class Snapshot:
    """Host image of one step's outputs."""

    def __init__(self, views: Dict[str, torch.Tensor], event: torch.cuda.Event):
        self._views = views
        self._event = event

    def detach(self) -> Dict[str, torch.Tensor]:
        self._event.synchronize()
        return {k: v.clone() for k, v in self._views.items()}


class StageRunner:
    def __init__(self, module: torch.nn.Module, workers: int = 2):
        self.module = module
        self.pool = PinnedPool()
        self.copy_stream = torch.cuda.Stream()
        self.executor = concurrent.futures.ThreadPoolExecutor(workers)
        self.jobs: List[concurrent.futures.Future] = []

    def _snapshot(self, outputs: Dict[str, torch.Tensor]) -> Snapshot:
        main = torch.cuda.current_stream()
        self.copy_stream.wait_stream(main)
        views = {}
        with torch.cuda.stream(self.copy_stream):
            for key, tensor in outputs.items():
                tensor.record_stream(self.copy_stream)
                view = self.pool.view_like(key, tensor)
                view.copy_(tensor, non_blocking=True)
                views[key] = view
        event = torch.cuda.Event()
        event.record(self.copy_stream)
        return Snapshot(views, event)

    def step(self, x: torch.Tensor, overlap) -> torch.Tensor:
        hidden = self.module(x)
        outputs = {"hidden": hidden, "argmax": hidden.argmax(-1)}
        snap = self._snapshot(outputs)
        nxt = overlap(hidden)
        payload = snap.detach()
        self.jobs.append(self.executor.submit(digest, payload))
        return nxt

    def results(self) -> List[str]:
        done = [j.result() for j in self.jobs]
        self.jobs.clear()
        return done


def digest(payload: Dict[str, torch.Tensor]) -> str:
    h = hashlib.sha1()
    for key in sorted(payload):
        h.update(key.encode())
        h.update(payload[key].numpy().tobytes())
    return h.hexdigest()


def postprocess(hidden: torch.Tensor) -> torch.Tensor:
    y = torch.nn.functional.layer_norm(hidden, hidden.shape[-1:])
    return torch.tanh(y)


def main():
    torch.manual_seed(0)
    width = 1536
    module = torch.nn.Sequential(
        torch.nn.Linear(width, 4 * width),
        torch.nn.SiLU(),
        torch.nn.Linear(4 * width, width),
    ).cuda()
    runner = StageRunner(module)
    x = torch.randn((48, width), device="cuda")
    with torch.inference_mode():
        for _ in range(32):
            x = runner.step(x, postprocess)
    for line in runner.results()[-3:]:
        print(line)
    runner.executor.shutdown()


if __name__ == "__main__":
    main()
