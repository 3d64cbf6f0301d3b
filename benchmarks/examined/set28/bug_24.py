import torch
import torch.nn.functional as F
from torch import nn


class GraphRunner:
    """Captures a callable once per input shape and replays it."""

    def __init__(self, fn, warmup=2):
        self.fn, self.warmup = fn, warmup
        self.entries = {}

    def _capture(self, x):
        static_x = x.clone()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(self.warmup):
                self.fn(static_x)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            static_y = self.fn(static_x)
        self.entries[tuple(x.shape)] = (graph, static_x, static_y)

    def run(self, x):
        key = tuple(x.shape)
        if key not in self.entries:
            self._capture(x)
        graph, static_x, static_y = self.entries[key]
        static_x.copy_(x)
        graph.replay()
        return static_y.clone()


class VisionBlock(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)

    def forward(self, x, segment):
        n, h = x.shape
        q, k, v = self.qkv(self.norm(x)).view(n, 3, self.heads, h // self.heads).permute(1, 2, 0, 3)
        mask = segment[:, None] == segment[None, :]
        y = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask)[0]
        return x + self.out(y.transpose(0, 1).reshape(n, h))


class PackedViT(nn.Module):
    def __init__(self, patch_dim=588, hidden=1024, heads=16, depth=12, grid=70):
        super().__init__()
        self.patch = nn.Linear(patch_dim, hidden)
        self.pos = nn.Embedding(grid * grid, hidden)
        self.blocks = nn.ModuleList(VisionBlock(hidden, heads) for _ in range(depth))
        self.runner = GraphRunner(self._forward_aux)
        self.aux = None

    def _forward(self, tokens, position_ids, cu_seqlens):
        x = self.patch(tokens) + self.pos(position_ids)
        segment = torch.bucketize(torch.arange(x.shape[0], device=x.device), cu_seqlens[1:], right=True)
        for block in self.blocks:
            x = block(x, segment)
        return x

    def _forward_aux(self, tokens):
        position_ids, cu_seqlens = self.aux
        return self._forward(tokens, position_ids, cu_seqlens)

    @torch.inference_mode()
    def encode(self, images, use_graph=True):
        tokens = torch.cat([im.patches for im in images]).to("cuda", torch.float16, non_blocking=True)
        position_ids = torch.cat([im.positions for im in images]).to("cuda", non_blocking=True)
        lengths = torch.tensor([0] + [len(im.patches) for im in images])
        cu_seqlens = lengths.cumsum(0).to("cuda", non_blocking=True)
        if not use_graph:
            return self._forward(tokens, position_ids, cu_seqlens)
        self.aux = (position_ids, cu_seqlens)
        return self.runner.run(tokens)


def embed_dataset(model, batches):
    model = model.cuda().half().eval()
    embeddings = []
    for images in batches:
        packed = model.encode(images)
        start = 0
        for im in images:
            embeddings.append(packed[start : start + len(im.patches)].mean(dim=0))
            start += len(im.patches)
    return torch.stack(embeddings).cpu()
