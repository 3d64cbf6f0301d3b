from typing import Iterable, Tuple

import torch
from cupy.cuda import nccl

_NCCL_TYPES = {
    torch.float32: nccl.NCCL_FLOAT32,
    torch.float16: nccl.NCCL_FLOAT16,
    torch.int64: nccl.NCCL_INT64,
}


class WeightChannel:
    """Trainer-side end of the trainer -> inference weight transfer."""

    def __init__(self, world_size: int, rank: int, unique_id, device: torch.device):
        self.device = device
        self.rank = rank
        with torch.cuda.device(device):
            self.comm = nccl.NcclCommunicator(world_size, unique_id, rank)
            self.stream = torch.cuda.Stream(device)

    def _broadcast(self, tensor: torch.Tensor) -> None:
        self.comm.broadcast(
            tensor.data_ptr(),
            tensor.data_ptr(),
            tensor.numel(),
            _NCCL_TYPES[tensor.dtype],
            0,
            self.stream.cuda_stream,
        )

    def send(self, params: Iterable[Tuple[str, torch.Tensor]]) -> int:
        current = torch.cuda.current_stream(self.device)
        total = 0
        for _name, tensor in params:
            send = tensor if tensor.is_contiguous() else tensor.contiguous()
            self.stream.wait_stream(current)
            self._broadcast(send)
            total += send.numel()
        current.wait_stream(self.stream)
        return total

    def receive(self, buffers: Iterable[torch.Tensor]) -> None:
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        for buf in buffers:
            self._broadcast(buf)
        current.wait_stream(self.stream)


class PolicyExporter:
    def __init__(self, model: torch.nn.Module, channel: WeightChannel):
        self.model = model
        self.channel = channel

    def _export_view(self):
        for name, p in self.model.named_parameters():
            data = p.detach()
            # the engine keeps linear weights transposed
            yield name, data.t() if data.dim() == 2 else data

    def push(self) -> int:
        with torch.cuda.device(self.channel.device):
            return self.channel.send(self._export_view())
