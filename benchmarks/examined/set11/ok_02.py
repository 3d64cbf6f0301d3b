"""Packed broadcast of trainer weights to the inference workers."""
from typing import Any, Callable, Dict, Iterator, Tuple

import torch
import torch.distributed as dist

DEFAULT_PACKED_BUFFER_SIZE = 1 << 30
DEFAULT_PACKED_NUM_BUFFERS = 2


def packed_broadcast_producer(
    iterator: Iterator[Tuple[str, torch.Tensor]],
    group: dist.ProcessGroup,
    src: int,
    post_iter_func: Callable[[Tuple[str, torch.Tensor]], torch.Tensor],
    buffer_size_bytes: int = DEFAULT_PACKED_BUFFER_SIZE,
    num_buffers: int = DEFAULT_PACKED_NUM_BUFFERS,
) -> None:
    caller_stream = torch.cuda.current_stream()
    streams = [torch.cuda.Stream() for _ in range(num_buffers)]
    buffer_idx = 0
    packing_tensor_list: list = [[] for _ in range(num_buffers)]
    packing_tensor_sizes = [0] * num_buffers
    packed_tensors: list = [None] * num_buffers

    while True:
        # wait until the previous transfer of this buffer is over
        streams[buffer_idx].synchronize()
        streams[buffer_idx].wait_stream(caller_stream)
        with torch.cuda.stream(streams[buffer_idx]):
            try:
                packing_tensor_list[buffer_idx] = []
                packing_tensor_sizes[buffer_idx] = 0
                while True:
                    tensor = post_iter_func(next(iterator)).contiguous().view(-1).view(torch.uint8)
                    packing_tensor_list[buffer_idx].append(tensor)
                    packing_tensor_sizes[buffer_idx] += tensor.numel()
                    if packing_tensor_sizes[buffer_idx] > buffer_size_bytes:
                        break
                packed_tensors[buffer_idx] = torch.cat(packing_tensor_list[buffer_idx], dim=0)
                dist.broadcast(packed_tensors[buffer_idx], src=src, group=group)
                buffer_idx = (buffer_idx + 1) % num_buffers
            except StopIteration:
                if packing_tensor_list[buffer_idx]:
                    packed_tensors[buffer_idx] = torch.cat(packing_tensor_list[buffer_idx], dim=0)
                    dist.broadcast(packed_tensors[buffer_idx], src=src, group=group)
                break

    for stream in streams:
        stream.synchronize()


class ColocatedWeightSender:
    """Exports merged weights of the actor and ships them to the rollout engine."""

    def __init__(self, model: torch.nn.Module, lora: Dict[str, Any], group, wire_dtype=torch.bfloat16):
        self.model = model
        self.lora = lora
        self.group = group
        self.wire_dtype = wire_dtype

    @torch.no_grad()
    def _export_state(self) -> Dict[str, torch.Tensor]:
        exported = {}
        for name, param in self.model.named_parameters():
            weight = param.detach()
            adapter = self.lora.get(name)
            if adapter is not None:
                weight = weight + adapter.scaling * (adapter.b @ adapter.a)
            exported[name] = weight.to(self.wire_dtype)
        return exported

    def update_weights(self) -> int:
        exported = self._export_state()
        packed_broadcast_producer(
            iterator=iter(exported.items()),
            group=self.group,
            src=0,
            post_iter_func=lambda item: item[1],
        )
        return len(exported)
