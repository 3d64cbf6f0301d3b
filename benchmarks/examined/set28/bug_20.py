import torch
from torch import nn


class BlockOffloader:
    """Keeps the blocks of a diffusion transformer in host memory and uploads each one ahead of its forward."""

    def __init__(self, blocks, device="cuda", prefetch=1):
        self.blocks = list(blocks)
        self.device = torch.device(device)
        self.prefetch = prefetch
        self.onload_stream = torch.cuda.Stream(self.device)
        self.cpu_data, self.ready = {}, {}
        for block in self.blocks:
            for p in block.parameters():
                self.cpu_data[p] = p.data.cpu().pin_memory()
                p.data = torch.empty(p.shape, dtype=p.dtype, device=self.device)
                p.data.untyped_storage().resize_(0)
        for i, block in enumerate(self.blocks):
            block.register_forward_pre_hook(self._pre_forward(i))
            block.register_forward_hook(self._post_forward(i))

    def start(self):
        self.onload_stream.wait_stream(torch.cuda.current_stream())
        for i in range(self.prefetch + 1):
            self._onload(i)

    def _onload(self, index):
        if index >= len(self.blocks) or index in self.ready:
            return
        with torch.cuda.stream(self.onload_stream):
            for p in self.blocks[index].parameters():
                host = self.cpu_data[p]
                p.data.untyped_storage().resize_(host.untyped_storage().nbytes())
                p.data.copy_(host, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
        self.ready[index] = event

    def _offload(self, index):
        for p in self.blocks[index].parameters():
            p.data.untyped_storage().resize_(0)
        del self.ready[index]

    def _pre_forward(self, index):
        def hook(module, args):
            self._onload(index)
            torch.cuda.current_stream().wait_event(self.ready[index])

        return hook

    def _post_forward(self, index):
        def hook(module, args, output):
            self._offload(index)
            self._onload(index + self.prefetch + 1)
            return output

        return hook


class DiTBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, t):
        b, n, c = x.shape
        h = self.norm(x) * (1 + t)
        q, k, v = self.qkv(h).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        a = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(a.transpose(1, 2).reshape(b, n, c))
        return x + self.mlp(self.norm(x) * (1 + t))


@torch.inference_mode()
def sample(blocks, steps=30, tokens=4096, width=3072):
    offloader = BlockOffloader(blocks)
    x = torch.randn(1, tokens, width, device="cuda", dtype=torch.bfloat16)
    for step in range(steps):
        offloader.start()
        t = torch.full((1, 1, width), 1.0 - step / steps, device="cuda", dtype=torch.bfloat16)
        v = x
        for block in blocks:
            v = block(v, t)
        x = x - v / steps
    return x.float().cpu()


if __name__ == "__main__":
    model = nn.ModuleList(DiTBlock(3072, 24) for _ in range(24)).bfloat16()
    print(sample(model).std())
