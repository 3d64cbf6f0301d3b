"""Layer-wise CPU offload of DiT blocks with hooks: the next block is prefetched while one computes."""
import torch


class LayerwiseOffloadHook:
    def __init__(self, module, device, copy_stream, pin_memory=True):
        self.module = module
        self.device = device
        self.copy_stream = copy_stream
        self.next_hook = None
        self.params = dict(module.named_parameters())
        self.cpu_flat = {}
        self.meta = {}
        self._pack(pin_memory)
        self._prefetch_done = None
        self.materialized = False

    def _pack(self, pin_memory):
        by_dtype = {}
        for name, p in self.params.items():
            by_dtype.setdefault(p.dtype, []).append((name, p))
        for dtype, entries in by_dtype.items():
            flat = torch.cat([p.detach().reshape(-1).cpu() for _, p in entries])
            self.cpu_flat[dtype] = flat.pin_memory() if pin_memory else flat
            offset, metas = 0, []
            for name, p in entries:
                metas.append((name, offset, p.shape))
                offset += p.numel()
            self.meta[dtype] = metas
        for p in self.params.values():
            p.data = torch.empty((), device=self.device, dtype=p.dtype)

    def prefetch_layer(self, non_blocking=True):
        if self.materialized:
            return
        with torch.cuda.stream(self.copy_stream):
            for dtype, flat in self.cpu_flat.items():
                gpu = torch.empty(flat.shape, dtype=dtype, device=self.device)
                gpu.copy_(flat, non_blocking=non_blocking)
                for name, offset, shape in self.meta[dtype]:
                    self.params[name].data = gpu[offset : offset + shape.numel()].view(shape)
            event = torch.cuda.Event()
            event.record(self.copy_stream)
        self._prefetch_done = event
        self.materialized = True

    def wait_ready(self):
        self.prefetch_layer()
        torch.cuda.current_stream().wait_event(self._prefetch_done)

    def offload_layer(self):
        for p in self.params.values():
            p.data = torch.empty((), device=self.device, dtype=p.dtype)
        self._prefetch_done = None
        self.materialized = False

    def pre_forward(self, module, args):
        self.wait_ready()
        self.next_hook.prefetch_layer()

    def post_forward(self, module, args, output):
        self.offload_layer()
        return output


def apply_layerwise_offload(blocks, device):
    copy_stream = torch.cuda.Stream(device=device)
    hooks = [LayerwiseOffloadHook(block, device, copy_stream) for block in blocks]
    for i, (block, hook) in enumerate(zip(blocks, hooks)):
        hook.next_hook = hooks[(i + 1) % len(hooks)]
        block.register_forward_pre_hook(hook.pre_forward)
        block.register_forward_hook(hook.post_forward)
    hooks[0].prefetch_layer()
    return hooks


class DiT(torch.nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.blocks = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(dim, dim // 64, 4 * dim, dropout=0.0, batch_first=True)
            for _ in range(depth)
        )

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


@torch.no_grad()
def main(steps=30):
    device = torch.device("cuda")
    model = DiT(1536, 24).to(torch.bfloat16).train()
    apply_layerwise_offload(model.blocks, device)
    latents = torch.randn(1, 4096, 1536, dtype=torch.bfloat16, device=device)
    for _ in range(steps):
        latents = latents - 0.03 * model(latents)
    return latents.float().cpu()


if __name__ == "__main__":
    print(main().std())
