from typing import Dict, List

import numpy as np
import torch
import torch.nn as nn


class Sequence:
    block_size = 16

    def __init__(self, prompt_len: int, blocks: List[int]):
        self.num_tokens = prompt_len
        self.block_table = blocks

    @property
    def slot(self) -> int:
        pos = self.num_tokens - 1
        return self.block_table[pos // self.block_size] * self.block_size + pos % self.block_size


class DecodeInputs:
    """Allocation-free metadata for graph decode."""

    def __init__(self, max_bs: int, device: torch.device):
        self.host: Dict[str, torch.Tensor] = {
            name: torch.zeros(max_bs, dtype=torch.int64, pin_memory=True)
            for name in ("positions", "slot_mapping", "context_lens")
        }
        self.np = {name: t.numpy() for name, t in self.host.items()}
        self.device = {name: torch.zeros_like(t, device=device) for name, t in self.host.items()}

    def fill(self, seqs: List[Sequence]) -> int:
        bs = len(seqs)
        self.np["positions"][:bs] = np.fromiter((s.num_tokens - 1 for s in seqs), np.int64, bs)
        self.np["slot_mapping"][:bs] = np.fromiter((s.slot for s in seqs), np.int64, bs)
        self.np["context_lens"][:bs] = np.fromiter((s.num_tokens for s in seqs), np.int64, bs)
        return bs

    def upload(self, bs: int) -> None:
        for name, buf in self.host.items():
            self.device[name][:bs].copy_(buf[:bs], non_blocking=True)


class Attention(nn.Module):
    def __init__(self, width: int, slots: int, max_pos: int):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.pos = nn.Embedding(max_pos, width)
        self.register_buffer("cache", torch.zeros(slots, 2 * width))

    def forward(self, x, meta):
        x = x + self.pos(meta["positions"])
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        self.cache.index_copy_(0, meta["slot_mapping"], torch.cat([k, v], -1))
        past = self.cache.index_select(0, meta["slot_mapping"])
        scale = meta["context_lens"].to(q.dtype).rsqrt().unsqueeze(-1)
        return self.out(q * past[:, : q.shape[-1]] * scale + past[:, q.shape[-1]:])


class ModelRunner:
    def __init__(self, bs: int, width: int, vocab: int, device):
        self.embed = nn.Embedding(vocab, width, device=device)
        self.attn = Attention(width, 4096, 2048).to(device)
        self.inputs = DecodeInputs(bs, device)
        self.input_ids = torch.zeros(bs, dtype=torch.int64, device=device)
        self.history: List[torch.Tensor] = []
        self.capture()

    def _forward(self):
        h = self.attn(self.embed(self.input_ids), self.inputs.device)
        return (h @ self.embed.weight.t()).argmax(-1)

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._forward()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.next_ids = self._forward()

    def decode(self, seqs: List[Sequence]):
        bs = self.inputs.fill(seqs)
        self.inputs.upload(bs)
        self.graph.replay()
        self.input_ids.copy_(self.next_ids)
        self.history.append(self.next_ids.clone())
        for s in seqs:
            s.num_tokens += 1


@torch.inference_mode()
def main():
    device = torch.device("cuda", 0)
    seqs = [Sequence(5 + i, list(range(i * 8, i * 8 + 8))) for i in range(32)]
    runner = ModelRunner(len(seqs), 1024, 32000, device)
    for _ in range(64):
        runner.decode(seqs)
    tokens = torch.stack(runner.history, dim=1).cpu()
    print(tokens[:2].tolist())


if __name__ == "__main__":
    main()
