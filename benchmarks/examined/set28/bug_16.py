import torch
import torch.nn.functional as F
from torch import nn


class LoRAWeights:
    def __init__(self, max_loras, rank, d_in, d_out):
        kw = dict(device="cuda", dtype=torch.bfloat16)
        self.a = torch.zeros(max_loras, rank, d_in, **kw)
        self.b = torch.zeros(max_loras, d_out, rank, **kw)

    def set_lora(self, slot, a, b):
        self.a[slot, : a.shape[0]].copy_(a, non_blocking=True)
        self.b[slot, :, : b.shape[1]].copy_(b, non_blocking=True)


class LinearWithLoRA(nn.Module):
    """Base projection on the main stream, adapter projection next to it on its own stream."""

    _lora_stream = None

    def __init__(self, base, max_loras=8, rank=16):
        super().__init__()
        self.base = base
        self.lora = LoRAWeights(max_loras, rank, base.in_features, base.out_features)
        if LinearWithLoRA._lora_stream is None:
            LinearWithLoRA._lora_stream = torch.cuda.Stream()

    def _add_shrink_expand(self, x, lora_ids):
        out = torch.zeros(x.shape[0], self.base.out_features, dtype=x.dtype, device=x.device)
        for slot in sorted(set(lora_ids)):
            if slot < 0:
                continue
            rows = [i for i, s in enumerate(lora_ids) if s == slot]
            first, last = rows[0], rows[-1] + 1
            shrunk = x[first:last] @ self.lora.a[slot].t()
            out[first:last] = shrunk @ self.lora.b[slot].t()
        return out

    def forward(self, x, lora_ids):
        main = torch.cuda.current_stream()
        with torch.cuda.stream(self._lora_stream):
            self._lora_stream.wait_stream(torch.cuda.current_stream())
            delta = self._add_shrink_expand(x, lora_ids)
        output = F.linear(x, self.base.weight, self.base.bias)
        main.wait_stream(self._lora_stream)
        delta.record_stream(main)
        return output.add_(delta)


class Block(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        kw = dict(device="cuda", dtype=torch.bfloat16)
        self.norm = nn.RMSNorm(hidden, **kw)
        self.up = LinearWithLoRA(nn.Linear(hidden, 4 * hidden, **kw))
        self.down = LinearWithLoRA(nn.Linear(4 * hidden, hidden, **kw))

    def forward(self, x, lora_ids):
        h = F.silu(self.up(self.norm(x), lora_ids))
        return x + self.down(h, lora_ids)


class Engine:
    def __init__(self, hidden=4096, depth=16):
        self.blocks = nn.ModuleList(Block(hidden) for _ in range(depth))

    def load_adapter(self, slot, tensors):
        for block, (ua, ub, da, db) in zip(self.blocks, tensors):
            block.up.lora.set_lora(slot, ua, ub)
            block.down.lora.set_lora(slot, da, db)
        torch.cuda.synchronize()

    @torch.inference_mode()
    def step(self, embeddings, lora_ids):
        x = embeddings.to("cuda", torch.bfloat16, non_blocking=True)
        for block in self.blocks:
            x = block(x, lora_ids)
        return x.float().argmax(dim=-1).tolist()


if __name__ == "__main__":
    engine = Engine()
    print(engine.step(torch.randn(64, 4096), sorted([0] * 20 + [1] * 30 + [-1] * 14))[:4])
