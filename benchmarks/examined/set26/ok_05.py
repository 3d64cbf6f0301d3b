import torch


class CausalSelfAttention(torch.nn.Module):
    def __init__(self, dim, window, chunk, rope_table):
        super().__init__()
        self.qkv = torch.nn.Linear(dim, 3 * dim)
        self.chunk = chunk
        self.register_buffer("k_cache", torch.zeros(1, window, dim))
        self.register_buffer("v_cache", torch.zeros(1, window, dim))
        self.rope = rope_table.pin_memory().to("cuda", non_blocking=True)

    def forward(self, x, is_chunk_start):
        q, k, v = self.qkv(x + self.rope[: x.shape[1]]).chunk(3, dim=-1)
        if is_chunk_start:
            self.k_cache.copy_(torch.roll(self.k_cache, -self.chunk, dims=1))
            self.v_cache.copy_(torch.roll(self.v_cache, -self.chunk, dims=1))
        self.k_cache[:, -self.chunk:].copy_(k)
        self.v_cache[:, -self.chunk:].copy_(v)
        att = (q @ self.k_cache.transpose(1, 2) * q.shape[-1] ** -0.5).softmax(-1)
        return att @ self.v_cache


class CausalCudaGraphDispatch:
    """Holds one graph for steps that evict and one for steps that overwrite."""

    def __init__(self, block, chunk, dim):
        self.block = block
        self.static_x = torch.zeros(1, chunk, dim, device="cuda")
        self.entries = {}

    def _reset(self):
        self.block.k_cache.zero_()
        self.block.v_cache.zero_()

    @torch.no_grad()
    def capture(self):
        for evict in (True, False):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    self.block(self.static_x, evict)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = self.block(self.static_x, evict)
            self.entries[evict] = (graph, out)
        self._reset()

    @torch.no_grad()
    def __call__(self, x, is_chunk_start):
        graph, out = self.entries[bool(is_chunk_start)]
        self.static_x.copy_(x)
        graph.replay()
        return out.clone()


def denoise(chunks, steps=4, dim=1536, window=64, chunk=16):
    block = CausalSelfAttention(dim, window, chunk, torch.randn(chunk, dim)).cuda()
    dispatch = CausalCudaGraphDispatch(block, chunk, dim)
    dispatch.capture()
    frames = []
    for noise in chunks:
        latent = noise.cuda()
        for step in range(steps):
            flow = dispatch(latent, step == 0)
            latent = latent - flow / steps
        frames.append(latent)
    return torch.cat(frames, dim=1).cpu()
