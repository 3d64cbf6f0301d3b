"""Graph runner with two alternating attention wrappers: plan on the host, replay on the device."""
import torch


class RaggedPrefillWrapper:
    """Segment layout in pinned memory, uploaded to fixed device tensors."""

    def __init__(self, max_segments, max_tokens, device):
        self.cu_host = torch.zeros(max_segments + 1, dtype=torch.int32, pin_memory=True)
        self.cu_dev = torch.zeros(max_segments + 1, dtype=torch.int32, device=device)
        self.positions = torch.arange(max_tokens, dtype=torch.int32, device=device)

    def plan(self, cu_seqlens):
        n = cu_seqlens.numel()
        self.cu_host[:n].copy_(cu_seqlens)
        self.cu_host[n:].fill_(int(cu_seqlens[-1]))
        self.cu_dev.copy_(self.cu_host, non_blocking=True)

    def run(self, q, k, v):
        seg = torch.searchsorted(self.cu_dev, self.positions, right=True)
        same = seg[:, None] == seg[None, :]
        scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        return scores.masked_fill(~same, -1e4).softmax(-1) @ v


class GraphSlot:
    def __init__(self, block, max_segments, max_tokens, dim, device):
        self.block = block
        self.wrapper = RaggedPrefillWrapper(max_segments, max_tokens, device)
        self.x = torch.zeros(max_tokens, dim, device=device)
        self.x_host = torch.zeros(max_tokens, dim, pin_memory=True)
        self.out_host = torch.zeros(max_tokens, dim, pin_memory=True)
        self.graph = None
        self.y = None
        self.completed = torch.cuda.Event()
        self.in_flight = False

    def capture(self, stream):
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.block(self.x, self.wrapper)
            stream.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=stream):
                self.y = self.block(self.x, self.wrapper)


class Block(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv = torch.nn.Linear(dim, 3 * dim)
        self.proj = torch.nn.Linear(dim, dim)

    def forward(self, x, wrapper):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return x + self.proj(wrapper.run(q, k, v))


class GraphRunner:
    def __init__(self, block, max_segments, max_tokens, dim, device="cuda"):
        self.stream = torch.cuda.Stream()
        self.slots = [GraphSlot(block, max_segments, max_tokens, dim, device) for _ in range(2)]
        torch.cuda.synchronize()
        for slot in self.slots:
            slot.capture(self.stream)
        torch.cuda.synchronize()
        self.step = 0

    def _finish(self, slot):
        slot.completed.synchronize()
        slot.in_flight = False
        return slot.out_host.clone()

    @torch.no_grad()
    def submit(self, tokens, cu_seqlens):
        """Queue one step; returns the output of the step that used the same slot before."""
        slot = self.slots[self.step % 2]
        self.step += 1
        previous = self._finish(slot) if slot.in_flight else None
        slot.x_host[: tokens.shape[0]].copy_(tokens)
        with torch.cuda.stream(self.stream):
            slot.x.copy_(slot.x_host, non_blocking=True)
            slot.wrapper.plan(cu_seqlens)
            slot.graph.replay()
            slot.out_host.copy_(slot.y, non_blocking=True)
            slot.completed.record()
        slot.in_flight = True
        return previous

    def drain(self):
        order = [self.slots[(self.step + i) % 2] for i in range(2)]
        return [self._finish(slot) for slot in order if slot.in_flight]


@torch.no_grad()
def run(requests, dim=256, max_tokens=1024, max_segments=16):
    runner = GraphRunner(Block(dim).cuda().eval(), max_segments, max_tokens, dim)
    outputs = [runner.submit(tokens, cu) for tokens, cu in requests]
    return [o for o in outputs if o is not None] + runner.drain()
