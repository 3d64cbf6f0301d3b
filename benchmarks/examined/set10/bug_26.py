from typing import Dict, Tuple

import torch

_cache_buf: Dict[Tuple[str, torch.device], torch.Tensor] = {}


def _get_cache_buf(name, nbytes, device):
    key = (name, device)
    buf = _cache_buf.get(key)
    if buf is None or buf.numel() < nbytes:
        buf = torch.empty(nbytes, dtype=torch.uint8, device=device)
        _cache_buf[key] = buf
    return buf


def top_k_renorm(logits, k, temperature):
    """Multi-CTA style top-k: values and row state live in the cached workspace."""
    rows, vocab = logits.shape
    nbytes = rows * vocab * 4
    scaled = _get_cache_buf("topk_row_states", nbytes, logits.device)[:nbytes].view(torch.float32).view(rows, vocab)
    torch.div(logits.float(), temperature[:, None], out=scaled)
    values, indices = torch.topk(scaled, k, dim=-1)
    probs = torch.softmax(values, dim=-1)
    noise = torch.empty_like(probs).exponential_()
    picked = (probs / noise).argmax(dim=-1, keepdim=True)
    return indices.gather(1, picked).squeeze(1)


class SamplerGraphRunner:
    """Captures the sampler once per batch size."""

    def __init__(self, vocab, capture_bs=(8, 32, 128), k=50, device="cuda"):
        self.vocab, self.k = vocab, k
        self.capture_bs = sorted(capture_bs)
        max_bs = self.capture_bs[-1]
        self.logits = torch.zeros(max_bs, vocab, dtype=torch.bfloat16, device=device)
        self.temperature = torch.ones(max_bs, device=device)
        self.graphs, self.outputs = {}, {}
        self.pool = None

    def capture(self):
        stream = torch.cuda.Stream()
        for bs in self.capture_bs:
            args = (self.logits[:bs], self.k, self.temperature[:bs])
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(2):
                    top_k_renorm(*args)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                self.outputs[bs] = top_k_renorm(*args)
            self.pool = self.pool or graph.pool()
            self.graphs[bs] = graph

    def sample(self, logits, temperature):
        n = logits.shape[0]
        bs = next(b for b in self.capture_bs if b >= n)
        self.logits[:n].copy_(logits)
        self.temperature[:n].copy_(temperature)
        self.graphs[bs].replay()
        return self.outputs[bs][:n].clone()
