from typing import Callable, Optional

import torch

_AUX_STREAM: Optional[torch.cuda.Stream] = None


def aux_stream() -> torch.cuda.Stream:
    global _AUX_STREAM
    if _AUX_STREAM is None:
        _AUX_STREAM = torch.cuda.Stream()
    return _AUX_STREAM


class SharedMLP(torch.nn.Module):
    def __init__(self, hidden: int, inter: int, dtype=torch.bfloat16):
        super().__init__()
        self.gate_up_proj = torch.nn.Linear(hidden, 2 * inter, bias=False, dtype=dtype)
        self.down_proj = torch.nn.Linear(inter, hidden, bias=False, dtype=dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        return self.down_proj(torch.nn.functional.silu(gate) * up)


class SharedExperts:
    def __init__(self, layer: torch.nn.Module, stream: Optional[torch.cuda.Stream]):
        self._layer = layer
        self._stream = stream
        self._output: Optional[torch.Tensor] = None

    def start(self, hidden_states: torch.Tensor, ready: torch.cuda.Event) -> None:
        if self._stream is None:
            self._output = self._layer(hidden_states)
            return
        self._output = self._run_in_aux_stream(hidden_states, ready)

    def _run_in_aux_stream(self, hidden_states: torch.Tensor, ready: torch.cuda.Event) -> torch.Tensor:
        self._stream.wait_event(ready)
        hidden_states.record_stream(self._stream)
        with torch.cuda.stream(self._stream):
            output = self._layer(hidden_states)
        return output

    def finish(self) -> torch.Tensor:
        if self._stream is not None:
            torch.cuda.current_stream().wait_stream(self._stream)
        output, self._output = self._output, None
        return output


class FusedMoEBlock(torch.nn.Module):
    def __init__(self, gate: torch.nn.Linear, routed: Callable, shared_mlp: torch.nn.Module,
                 chunk_size: int = 2048):
        super().__init__()
        self.gate = gate
        self.routed = routed
        self.shared_mlp = shared_mlp
        self.chunk_size = chunk_size
        self.shared_experts = SharedExperts(shared_mlp, aux_stream())

    def _process_chunk(self, hidden: torch.Tensor, logits: torch.Tensor, ready: torch.cuda.Event,
                       out: torch.Tensor) -> None:
        self.shared_experts.start(hidden, ready)
        routed = self.routed(hidden, logits)
        shared = self.shared_experts.finish()
        torch.add(routed, shared, out=out)

    def forward_impl_chunked(self, hidden_states: torch.Tensor) -> torch.Tensor:
        logits = self.gate(hidden_states)
        final = torch.empty_like(hidden_states)
        ready = torch.cuda.Event()
        ready.record()
        for start in range(0, hidden_states.shape[0], self.chunk_size):
            end = min(start + self.chunk_size, hidden_states.shape[0])
            self._process_chunk(
                hidden_states[start:end], logits[start:end], ready, final[start:end]
            )
        return final

    @torch.inference_mode()
    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        return self.forward_impl_chunked(hidden_states)
