import torch
from torch import nn


class PackedBlock:
    """One immutable CPU master for all frozen parameters of a block."""

    def __init__(self, block: nn.Module, dtype=torch.bfloat16):
        self.block = block
        params = list(block.parameters())
        self.master = torch.cat([p.detach().to("cpu", dtype).reshape(-1) for p in params])
        self.shapes = [p.shape for p in params]

    def bind(self, flat: torch.Tensor):
        offset = 0
        for p, shape in zip(self.block.parameters(), self.shapes):
            n = shape.numel()
            p.data = flat[offset:offset + n].view(shape)
            offset += n


class BlockRing:
    def __init__(self, blocks, device, slots=2, stages=2, dtype=torch.bfloat16):
        self.packed = [PackedBlock(b, dtype) for b in blocks]
        size = max(p.master.numel() for p in self.packed)
        self.gpu = [torch.empty(size, dtype=dtype, device=device) for _ in range(slots)]
        self.pinned = [torch.empty(size, dtype=dtype, pin_memory=True) for _ in range(stages)]
        self.copy_stream = torch.cuda.Stream(device)
        self.copy_stream.wait_stream(torch.cuda.current_stream(device))
        self.ready = [torch.cuda.Event() for _ in range(slots)]
        self.released = [torch.cuda.Event() for _ in range(slots)]
        self.uploaded = [torch.cuda.Event() for _ in range(stages)]
        self.resident = [None] * slots
        self.stage = 0

    def prefetch(self, index):
        if not 0 <= index < len(self.packed):
            return
        slot = index % len(self.gpu)
        if self.resident[slot] == index:
            return
        packed = self.packed[index]
        n = packed.master.numel()

        stage = self.stage
        self.stage = (stage + 1) % len(self.pinned)
        self.uploaded[stage].synchronize()
        self.pinned[stage][:n].copy_(packed.master)

        with torch.cuda.stream(self.copy_stream):
            self.copy_stream.wait_event(self.released[slot])
            self.gpu[slot][:n].copy_(self.pinned[stage][:n], non_blocking=True)
            self.uploaded[stage].record(self.copy_stream)
            self.ready[slot].record(self.copy_stream)
        self.resident[slot] = index

    def acquire(self, index):
        self.prefetch(index)
        slot = index % len(self.gpu)
        torch.cuda.current_stream().wait_event(self.ready[slot])
        self.packed[index].bind(self.gpu[slot])

    def release(self, index):
        self.released[index % len(self.gpu)].record()


class StreamedTransformer(nn.Module):
    def __init__(self, dim, depth, device):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))
            for _ in range(depth)
        ).requires_grad_(False)
        self.ring = BlockRing(self.blocks, device)

    @torch.no_grad()
    def run_forward(self, x):
        saved = []
        for i, block in enumerate(self.blocks):
            self.ring.acquire(i)
            self.ring.prefetch(i + 1)
            saved.append(x)
            x = x + block(x)
            self.ring.release(i)
        return x, saved

    def run_backward(self, saved, grad):
        for i in range(len(self.blocks) - 1, -1, -1):
            self.ring.acquire(i)
            self.ring.prefetch(i - 1)
            x = saved[i].detach().requires_grad_()
            with torch.enable_grad():
                y = x + self.blocks[i](x)
            torch.autograd.backward(y, grad)
            self.ring.release(i)
            grad = x.grad
        return grad


def main(steps=3, dim=512, depth=12):
    device = torch.device("cuda")
    lora = nn.Linear(dim, dim, bias=False, device=device, dtype=torch.bfloat16)
    model = StreamedTransformer(dim, depth, device)
    optimizer = torch.optim.SGD(lora.parameters(), lr=1e-3)
    for _ in range(steps):
        hidden = lora(torch.randn(4, 256, dim, device=device, dtype=torch.bfloat16))
        out, saved = model.run_forward(hidden.detach())
        hidden.backward(model.run_backward(saved, out / out.numel()))
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
