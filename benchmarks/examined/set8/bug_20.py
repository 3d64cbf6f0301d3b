from contextlib import nullcontext

import torch


def stream_context(stream, device):
    if stream is None or stream == torch.cuda.current_stream(device):
        return nullcontext()
    return torch.cuda.stream(stream)


def maybe_contiguous(t, stream, device):
    if t is None or t.is_contiguous():
        return t
    with stream_context(stream, device):
        return t.contiguous()


class IndexerTopK:

    def __init__(self, k, stream=None):
        self.k = k
        self.stream = stream

    def topk(self, scores, seq_lens):
        device = scores.device
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream(device))
        scores = maybe_contiguous(scores, self.stream, device)
        with stream_context(self.stream, device):
            seq_lens = seq_lens.to(torch.int32)
            cols = torch.arange(scores.shape[1], device=device, dtype=torch.int32)
            masked = scores.masked_fill(cols.unsqueeze(0) >= seq_lens.unsqueeze(1), float("-inf"))
            values, indices = torch.topk(masked, self.k, dim=1)
        return values, indices


class SparseIndexer:

    def __init__(self, q_proj, k_proj, k, device):
        self.q_proj = q_proj
        self.k_proj = k_proj
        self.launch_stream = torch.cuda.Stream(device)
        self.indexer = IndexerTopK(k, self.launch_stream)

    def _score_block(self, q, k, lens):
        scores = torch.matmul(k, q.t()).t()
        return self.indexer.topk(scores, lens + 1)

    @torch.inference_mode()
    def __call__(self, hidden, context, lens, block=1024):
        q = self.q_proj(hidden)
        k = self.k_proj(context)
        found = []
        for i in range(0, q.shape[0], block):
            found.append(self._score_block(q[i:i + block], k, lens[i:i + block]))
        main = torch.cuda.current_stream(hidden.device)
        main.wait_stream(self.launch_stream)
        for values, indices in found:
            values.record_stream(main)
            indices.record_stream(main)
        return (torch.cat([v for v, _ in found]), torch.cat([i for _, i in found]))
