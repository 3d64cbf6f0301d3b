"""Exports full weights of a tensor-parallel model to the rollout servers in flattened buckets."""
from dataclasses import dataclass
from typing import Dict, Iterator, List, Tuple

import torch
import torch.distributed as dist


@dataclass
class FlattenedTensorMetadata:
    name: str
    shape: torch.Size
    dtype: torch.dtype
    start: int
    end: int


class FlattenedTensorBucket:
    """A list of named tensors in one contiguous byte buffer."""

    def __init__(self, named_tensors: List[Tuple[str, torch.Tensor]]):
        self.metadata: List[FlattenedTensorMetadata] = []
        total = sum(t.numel() * t.element_size() for _, t in named_tensors)
        self.flattened = torch.empty(total, dtype=torch.uint8, device=named_tensors[0][1].device)
        start = 0
        for name, tensor in named_tensors:
            end = start + tensor.numel() * tensor.element_size()
            self.flattened[start:end].copy_(tensor.reshape(-1).view(torch.uint8))
            self.metadata.append(FlattenedTensorMetadata(name, tensor.shape, tensor.dtype, start, end))
            start = end


class MegatronBridge:
    def __init__(self, model: torch.nn.Module, tp_group: dist.ProcessGroup):
        self.model = model
        self.tp_group = tp_group
        self.tp_size = tp_group.size()

    def _gather(self, param: torch.nn.Parameter) -> Tuple[torch.Tensor, dist.Work]:
        shard = param.data.contiguous()
        full = torch.empty((self.tp_size * shard.shape[0], *shard.shape[1:]), dtype=shard.dtype, device=shard.device)
        work = dist.all_gather_into_tensor(full, shard, group=self.tp_group, async_op=True)
        return full, work

    def export_weights(self) -> Iterator[Tuple[str, torch.Tensor]]:
        works: List[dist.Work] = []
        for name, param in self.model.named_parameters():
            if getattr(param, "tensor_model_parallel", False) and self.tp_size > 1:
                weight, work = self._gather(param)
                works.append(work)
            else:
                weight = param.data
            yield name, weight
        for work in works:
            work.wait()


class RolloutWeightSync:
    def __init__(self, bridge: MegatronBridge, client, bucket_bytes: int = 512 << 20):
        self.bridge = bridge
        self.client = client
        self.bucket_bytes = bucket_bytes
        self.versions: Dict[str, int] = {}

    def _send(self, bucket: List[Tuple[str, torch.Tensor]]) -> None:
        flattened = FlattenedTensorBucket(bucket)
        if dist.get_rank() == 0:
            torch.cuda.current_stream().synchronize()
            self.client.update_flattened_params(flattened.metadata, flattened.flattened)
        for name, _ in bucket:
            self.versions[name] = self.versions.get(name, 0) + 1

    @torch.no_grad()
    def sync(self) -> None:
        bucket: List[Tuple[str, torch.Tensor]] = []
        size = 0
        for name, weight in self.bridge.export_weights():
            nbytes = weight.numel() * weight.element_size()
            if bucket and size + nbytes > self.bucket_bytes:
                self._send(bucket)
                bucket, size = [], 0
            bucket.append((name, weight))
            size += nbytes
        if bucket:
            self._send(bucket)
        dist.barrier()
