"""Receiving side of the packed weight refit."""
import math
from typing import Any, Callable, Dict, Iterable, List, Tuple

import torch
import torch.distributed as dist

NUM_BUFFERS = 2


def unpack_tensor(packed: torch.Tensor, metas: List[Tuple[str, torch.Size, torch.dtype]]):
    out, offset = [], 0
    for name, shape, dtype in metas:
        nbytes = math.prod(shape) * dtype.itemsize
        out.append((name, packed[offset : offset + nbytes].view(dtype).view(shape)))
        offset += nbytes
    return out


def packed_broadcast_consumer(
    metas: Iterable[List[Tuple[str, torch.Size, torch.dtype]]],
    group: dist.ProcessGroup,
    src: int,
    post_unpack_func: Callable[[List[Tuple[str, torch.Tensor]]], None],
) -> None:
    caller_stream = torch.cuda.current_stream()
    streams = [torch.cuda.Stream() for _ in range(NUM_BUFFERS)]
    for stream in streams:
        stream.wait_stream(caller_stream)

    packed_tensors: List[Any] = [None] * NUM_BUFFERS
    for step, bucket in enumerate(metas):
        buffer_idx = step % NUM_BUFFERS
        streams[buffer_idx].synchronize()
        with torch.cuda.stream(streams[buffer_idx]):
            total = sum(math.prod(shape) * dtype.itemsize for _, shape, dtype in bucket)
            packed_tensors[buffer_idx] = torch.empty(total, dtype=torch.uint8, device="cuda")
            dist.broadcast(packed_tensors[buffer_idx], src=src, group=group)
            post_unpack_func(unpack_tensor(packed_tensors[buffer_idx], bucket))


class InternalWorkerExtension:
    def __init__(self, model: torch.nn.Module, model_update_group: dist.ProcessGroup):
        self.model = model
        self.model_update_group = model_update_group
        self.state_dict_info: List[List[Tuple[str, torch.Size, torch.dtype]]] = []
        self._params: Dict[str, torch.Tensor] = dict(model.named_parameters())

    def prepare_refit_info(self, info) -> None:
        self.state_dict_info = info

    @torch.no_grad()
    def _load_weights(self, weights: List[Tuple[str, torch.Tensor]]) -> None:
        for name, tensor in weights:
            self._params[name].copy_(tensor)

    def update_weights_from_collective(self) -> bool:
        packed_broadcast_consumer(
            metas=self.state_dict_info,
            group=self.model_update_group,
            src=0,
            post_unpack_func=self._load_weights,
        )
        return True

    @torch.inference_mode()
    def generate(self, input_ids: torch.Tensor, max_new_tokens: int) -> torch.Tensor:
        for _ in range(max_new_tokens):
            logits = self.model(input_ids)
            input_ids = torch.cat([input_ids, logits[:, -1].argmax(-1, keepdim=True)], dim=1)
        return input_ids


def refit_and_generate(worker: InternalWorkerExtension, prompts: torch.Tensor, max_new_tokens: int):
    if not worker.update_weights_from_collective():
        raise RuntimeError("weight refit failed")
    return worker.generate(prompts, max_new_tokens)
