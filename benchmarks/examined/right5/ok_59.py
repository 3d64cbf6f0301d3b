from typing import Dict, Iterator, Optional

import torch
import torch.distributed as dist
from torch import nn


class Batch:
    def __init__(self, ids: torch.Tensor, label: torch.Tensor):
        self.ids, self.label = ids, label

    def to(self, device, non_blocking=False):
        return Batch(self.ids.to(device, non_blocking=non_blocking), self.label.to(device, non_blocking=non_blocking))

    def record_stream(self, stream):
        for t in (self.ids, self.label):
            t.record_stream(stream)


class ThreeStagePipeline:
    """Copies batch i+2, exchanges ids of batch i+1 and trains on batch i."""

    def __init__(self, model: nn.Module, opt: torch.optim.Optimizer, device: torch.device):
        self.model, self.opt, self.device = model, opt, device
        self.memcpy_stream = torch.cuda.Stream(device, priority=-1)
        self.data_dist_stream = torch.cuda.Stream(device, priority=-1)
        self.slots: Dict[int, Optional[Batch]] = {0: None, 1: None, 2: None}

    def _copy(self, it: Iterator[Batch]) -> Optional[Batch]:
        host = next(it, None)
        if host is None:
            return None
        with torch.cuda.stream(self.memcpy_stream):
            return host.to(self.device, non_blocking=True)

    def _distribute(self, batch: Optional[Batch]) -> Optional[Batch]:
        if batch is None:
            return None
        with torch.cuda.stream(self.data_dist_stream):
            self.data_dist_stream.wait_stream(self.memcpy_stream)
            batch.record_stream(self.data_dist_stream)
            ids = torch.empty_like(batch.ids)
            dist.all_to_all_single(ids, batch.ids)
            label = torch.empty_like(batch.label)
            dist.all_to_all_single(label, batch.label)
            return Batch(ids, label)

    def _train(self, batch: Batch) -> torch.Tensor:
        current = torch.cuda.current_stream(self.device)
        current.wait_stream(self.data_dist_stream)
        batch.record_stream(current)
        loss = nn.functional.binary_cross_entropy_with_logits(self.model(batch.ids).squeeze(-1), batch.label)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        return loss.detach()

    def run(self, it: Iterator[Batch]):
        self.slots[0] = self._distribute(self._copy(it))
        self.slots[1] = self._copy(it)
        while self.slots[0] is not None:
            self.slots[2] = self._copy(it)
            current = self.slots[0]
            torch.cuda.current_stream(self.device).wait_stream(self.data_dist_stream)
            following = self._distribute(self.slots[1])
            yield self._train(current)
            self.slots = {0: following, 1: self.slots[2], 2: None}


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    device = torch.device("cuda", torch.cuda.current_device())
    model = nn.Sequential(nn.EmbeddingBag(100_000, 64), nn.Linear(64, 1)).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    data = (Batch(torch.randint(0, 100_000, (512, 20)).pin_memory(), torch.rand(512).round().pin_memory())
            for _ in range(100))
    losses = list(ThreeStagePipeline(model, opt, device).run(data))
    print(dist.get_rank(), torch.stack(losses).mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
