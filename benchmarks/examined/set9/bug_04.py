import threading

import torch

prev_set_stream = torch.cuda.set_stream

_current_stream_tls = threading.local()


def _patched_set_stream(stream: torch.cuda.Stream) -> None:
    _current_stream_tls.value = stream
    prev_set_stream(stream)


torch.cuda.set_stream = _patched_set_stream


def current_stream() -> torch.cuda.Stream:
    """
    replace `torch.cuda.current_stream()` with `vllm.utils.current_stream()`.
    it turns out that `torch.cuda.current_stream()` is quite expensive,
    as it will construct a new stream object at each call.
    here we patch `torch.cuda.set_stream` to keep track of the current stream
    directly, so that we can avoid calling `torch.cuda.current_stream()`.
    """
    if not hasattr(_current_stream_tls, "value") or _current_stream_tls.value is None:
        torch.cuda.set_stream(torch.cuda.Stream())
    return _current_stream_tls.value


class SharedExperts:
    def __init__(self, layer: torch.nn.Module):
        self._layer = layer
        self._stream = torch.cuda.Stream()
        self._output = None

    def maybe_sync_shared_experts_stream(self):
        self._stream.wait_stream(current_stream())

    def apply(self, hidden_states: torch.Tensor):
        with torch.cuda.stream(self._stream):
            self._output = self._layer(hidden_states)

    def output(self) -> torch.Tensor:
        current_stream().wait_stream(self._stream)
        out, self._output = self._output, None
        return out


class MoERunner(torch.nn.Module):
    def __init__(self, gate, routed_experts, shared_experts):
        super().__init__()
        self.gate = gate
        self.routed_experts = routed_experts
        self._shared = SharedExperts(shared_experts)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        self._shared.maybe_sync_shared_experts_stream()
        self._shared.apply(hidden_states)
        router_logits = self.gate(hidden_states)
        fused = self.routed_experts(hidden_states, router_logits)
        return fused + self._shared.output()


class Worker:
    def __init__(self, embed, layers, norm):
        self.embed = embed
        self.layers = layers
        self.norm = norm

    @torch.inference_mode()
    def warmup(self, input_ids: torch.Tensor) -> torch.Tensor:
        hidden_states = self.norm(self.embed(input_ids))
        for layer in self.layers:
            hidden_states = layer(hidden_states)
        torch.cuda.synchronize()
        return hidden_states
