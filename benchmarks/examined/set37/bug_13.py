"""Split-K attention projections; prefill and decode requests of one step run on separate streams."""
from typing import Dict, List, Tuple

import torch

_BUFFERS: Dict[Tuple[str, torch.device], torch.Tensor] = {}


def get_cached_buffer(name: str, numel: int, device: torch.device) -> torch.Tensor:
    key = (name, device)
    buffer = _BUFFERS.get(key)
    if buffer is None:
        buffer = torch.empty(64 << 20, dtype=torch.float32, device=device)
        torch.cuda.synchronize(device)
        _BUFFERS[key] = buffer
    if numel > buffer.numel():
        raise ValueError(f"{name}: {numel} elements exceed the buffer")
    return buffer[:numel]


class SplitKProjection:
    def __init__(self, weight: torch.Tensor, splits: int):
        self.splits = splits
        self.out_features = weight.shape[1]
        self.blocks = weight.view(splits, -1, weight.shape[1])

    def run(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0]
        parts = x.view(rows, self.splits, -1).transpose(0, 1).contiguous()
        numel = self.splits * rows * self.out_features
        partial = get_cached_buffer("split_k_partial", numel, x.device)
        partial = partial.view(self.splits, rows, self.out_features)
        torch.bmm(parts, self.blocks, out=partial)
        return partial.sum(dim=0)


class BatchWrapper:
    def __init__(self, weights: List[torch.Tensor], splits: int):
        self.layers = [SplitKProjection(w, splits) for w in weights]

    def run(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer.run(x))
        return x


class MixedBatchRunner:
    def __init__(self, hidden: int, depth: int, device: torch.device):
        weights = [torch.randn(hidden, hidden, device=device) * hidden**-0.5 for _ in range(depth)]
        self.prefill = BatchWrapper(weights, splits=4)
        self.decode = BatchWrapper(weights, splits=16)
        self.prefill_stream = torch.cuda.Stream(device)
        self.decode_stream = torch.cuda.Stream(device)
        torch.cuda.synchronize(device)

    @torch.no_grad()
    def step(self, prompts: torch.Tensor, tokens: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        current = torch.cuda.current_stream()
        self.prefill_stream.wait_stream(current)
        self.decode_stream.wait_stream(current)
        with torch.cuda.stream(self.prefill_stream):
            prompt_out = self.prefill.run(prompts)
        with torch.cuda.stream(self.decode_stream):
            token_out = self.decode.run(tokens)
        current.wait_stream(self.prefill_stream)
        current.wait_stream(self.decode_stream)
        prompt_out.record_stream(current)
        token_out.record_stream(current)
        return prompt_out, token_out


def main() -> None:
    device = torch.device("cuda", 0)
    runner = MixedBatchRunner(2048, 24, device)
    prompts = torch.randn(4096, 2048, device=device)
    tokens = torch.randn(64, 2048, device=device)
    for _ in range(20):
        prompt_out, token_out = runner.step(prompts, tokens)
    print(prompt_out.mean().item(), token_out.mean().item())


if __name__ == "__main__":
    main()
