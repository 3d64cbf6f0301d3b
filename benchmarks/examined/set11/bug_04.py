"""Pipeline parallel communication with an asynchronous send."""
from typing import List, Optional

import torch
import torch.distributed as dist
from torch import nn


class PPCommNCCL:
    def __init__(self, group: dist.ProcessGroup, pp_rank: int, pp_ranks: List[int]):
        self.group = group
        self.prev_rank: Optional[int] = pp_ranks[pp_rank - 1] if pp_rank > 0 else None
        self.next_rank: Optional[int] = pp_ranks[pp_rank + 1] if pp_rank + 1 < len(pp_ranks) else None
        self.tensor_ready_event = torch.cuda.Event()
        self.send_stream = torch.cuda.Stream()

    def send(self, tensor: torch.Tensor, dest: Optional[int] = None) -> None:
        dest = self.next_rank if dest is None else dest
        if torch.cuda.is_current_stream_capturing():
            dist.send(tensor, dst=dest, group=self.group)
            return

        self.tensor_ready_event.record()
        tensor.record_stream(self.send_stream)
        with torch.cuda.stream(self.send_stream):
            self.tensor_ready_event.wait()
            dist.send(tensor, dst=dest, group=self.group)

    def recv(self, tensor: torch.Tensor, src: Optional[int] = None) -> None:
        src = self.prev_rank if src is None else src
        dist.recv(tensor, src=src, group=self.group)


class DecoderStage(nn.Module):
    """The layers of this rank; works in place on the engine's activation buffer."""

    def __init__(self, layers: List[nn.Module]):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            hidden_states.add_(layer(hidden_states))
        return hidden_states


class PyExecutorStage:
    def __init__(self, stage: DecoderStage, embed: Optional[nn.Embedding], comm: PPCommNCCL,
                 max_num_tokens: int, hidden_size: int, dtype: torch.dtype = torch.bfloat16):
        self.stage = stage
        self.embed = embed
        self.comm = comm
        self.hidden_states = torch.empty(max_num_tokens, hidden_size, dtype=dtype, device="cuda")

    @torch.inference_mode()
    def forward_step(self, num_tokens: int, input_ids: Optional[torch.Tensor] = None):
        hidden_states = self.hidden_states[:num_tokens]
        if self.comm.prev_rank is None:
            hidden_states.copy_(self.embed(input_ids))
        else:
            self.comm.recv(hidden_states)

        hidden_states = self.stage(hidden_states)

        if self.comm.next_rank is not None:
            self.comm.send(hidden_states)
            return None
        return hidden_states.clone()

    def run_micro_batches(self, micro_batches) -> List[torch.Tensor]:
        outputs = []
        for num_tokens, input_ids in micro_batches:
            out = self.forward_step(num_tokens, input_ids)
            if out is not None:
                outputs.append(out)
        return outputs
