"""Pipeline-parallel stage that runs its layers as a captured graph."""
import os
from typing import List, Optional

import torch
import torch.distributed as dist
import torch.nn as nn


class DecoderStage(nn.Module):
    def __init__(self, hidden: int, layers: int):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.GELU())
            for _ in range(layers)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


class PipelineWorker:
    def __init__(self, stage: DecoderStage, max_tokens: int, hidden: int, device: torch.device):
        self.stage = stage
        self.device = device
        self.rank = dist.get_rank()
        self.world = dist.get_world_size()
        self.static_in = torch.zeros(max_tokens, hidden, device=device, dtype=torch.bfloat16)
        self.static_out: Optional[torch.Tensor] = None
        self.graph = torch.cuda.CUDAGraph()
        self._send_work: List[dist.Work] = []
        self._capture()

    def _capture(self) -> None:
        side = torch.cuda.Stream(device=self.device)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.no_grad():
            for _ in range(3):
                self.stage(self.static_in)
        torch.cuda.current_stream().wait_stream(side)
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.static_out = self.stage(self.static_in)

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    @property
    def is_last(self) -> bool:
        return self.rank == self.world - 1

    def _load_inputs(self, hidden: Optional[torch.Tensor], n: int) -> None:
        if self.is_first:
            self.static_in[:n].copy_(hidden)
        else:
            dist.irecv(self.static_in[:n], src=self.rank - 1).wait()

    def execute(self, hidden: Optional[torch.Tensor], n: int) -> Optional[torch.Tensor]:
        self._load_inputs(hidden, n)
        self.graph.replay()
        if self.is_last:
            return self.static_out[:n].clone()
        self._send_work.append(dist.isend(self.static_out[:n], dst=self.rank + 1))
        self._send_work = [w for w in self._send_work if not w.is_completed()]
        return None

    def drain(self) -> None:
        for work in self._send_work:
            work.wait()
        self._send_work.clear()


def main() -> None:
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    dist.init_process_group("nccl")
    device = torch.device("cuda", local)
    hidden, chunk = 4096, 2048
    stage = DecoderStage(hidden, 8).to(device, torch.bfloat16).eval()
    worker = PipelineWorker(stage, chunk, hidden, device)
    outputs = []
    for _ in range(6):
        prompt = torch.randn(chunk, hidden, device=device, dtype=torch.bfloat16) if local == 0 else None
        out = worker.execute(prompt, chunk)
        if out is not None:
            outputs.append(out)
    worker.drain()
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
