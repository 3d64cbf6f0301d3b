"""Layer-by-layer export of prefill KV to host memory."""
from dataclasses import dataclass, field
from typing import Dict, List, Tuple

import torch
from torch import nn


@dataclass
class Export:
    device_kv: List[Tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    host_kv: List[Tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    finished: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class KVExporter:
    def __init__(self, layers: int, dim: int, device: torch.device):
        self.device = device
        self.proj = nn.ModuleList(nn.Linear(dim, 3 * dim, device=device) for _ in range(layers))
        self.stream = torch.cuda.Stream(device=device)
        self._active: Dict[str, Export] = {}
        self._ready: Dict[str, Export] = {}

    def _export_layer(self, job: Export, k: torch.Tensor, v: torch.Tensor) -> None:
        job.device_kv.append((k, v))
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            pair = tuple(torch.empty(t.shape, dtype=t.dtype, pin_memory=True) for t in (k, v))
            job.host_kv.append(pair)
            try:
                for dst, src in zip(pair, (k, v)):
                    dst.copy_(src, non_blocking=True)
            finally:
                job.finished.record(self.stream)

    @torch.no_grad()
    def prefill(self, request: str, x: torch.Tensor) -> torch.Tensor:
        self.reap()
        if request in self._active or request in self._ready:
            raise KeyError(f"{request} is already known")
        job = self._active[request] = Export()
        for proj in self.proj:
            q, k, v = (t.contiguous() for t in proj(x).chunk(3, dim=-1))
            self._export_layer(job, k, v)
            scores = torch.softmax(q @ k.transpose(-1, -2) * k.shape[-1] ** -0.5, dim=-1)
            x = x + scores @ v
        return x

    def reap(self) -> List[str]:
        """Releases device memory of requests whose export has completed."""
        done = [name for name, job in self._active.items() if job.finished.query()]
        for name in done:
            job = self._active.pop(name)
            job.device_kv.clear()
            self._ready[name] = job
        return done

    def take(self, request: str) -> List[Tuple[torch.Tensor, torch.Tensor]]:
        job = self._active.get(request)
        if job is not None:
            job.finished.synchronize()
            self.reap()
        return self._ready.pop(request).host_kv

    def close(self) -> None:
        self.stream.synchronize()
        self._active.clear()
        self._ready.clear()


def export_prompts(exporter: KVExporter, prompts: Dict[str, torch.Tensor]):
    for name, x in prompts.items():
        exporter.prefill(name, x)
    return {name: [k.clone() for k, _ in exporter.take(name)] for name in prompts}
