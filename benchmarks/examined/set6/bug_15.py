import torch
from torch import nn


def fp8_quantize(x: torch.Tensor):
    scale = x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-6) / 448.0
    return (x / scale).to(torch.float8_e4m3fn), scale


class SparseIndexer(nn.Module):
    def __init__(self, hidden: int, q_lora_rank: int, n_heads: int, head_dim: int, topk: int):
        super().__init__()
        self.wk = nn.Linear(hidden, head_dim, bias=False)
        self.wq_b = nn.Linear(q_lora_rank, n_heads * head_dim, bias=False)
        self.weights_proj = nn.Linear(hidden, n_heads, bias=False)
        self.n_heads, self.head_dim, self.topk = n_heads, head_dim, topk

    def precompute_aux(self, hidden_states):
        weights = self.weights_proj(hidden_states)
        k_fp8, k_scale = fp8_quantize(self.wk(hidden_states))
        return weights, k_fp8, k_scale

    def select(self, q, weights, k_fp8, k_scale):
        k = k_fp8.to(q.dtype) * k_scale
        logits = torch.einsum("qhd,kd->qhk", q, k).relu()
        scores = torch.einsum("qhk,qh->qk", logits, weights)
        return scores.topk(min(self.topk, scores.size(-1)), dim=-1).indices


class MLAExtraOverlap(nn.Module):
    """Runs the indexer and the KV compressor beside the dense query projection."""

    def __init__(self, hidden: int, q_lora_rank: int, kv_rank: int, indexer: SparseIndexer):
        super().__init__()
        self.q_a_proj = nn.Linear(hidden, q_lora_rank, bias=False)
        self.q_b_proj = nn.Linear(q_lora_rank, hidden, bias=False)
        self.compressor = nn.Linear(hidden, kv_rank, bias=False)
        self.indexer = indexer
        self.aux_stream = torch.cuda.Stream()
        self.indexer_stream = torch.cuda.Stream()
        self.start_event = torch.cuda.Event()
        self.aux_event = torch.cuda.Event()
        self.topk_event = torch.cuda.Event()
        self.kv_event = torch.cuda.Event()

    def _indexer_topk(self, hidden_states, qr):
        with torch.cuda.stream(self.aux_stream):
            self.aux_stream.wait_event(self.start_event)
            weights, k_fp8, k_scale = self.indexer.precompute_aux(hidden_states)
            self.aux_event.record(self.aux_stream)
        with torch.cuda.stream(self.indexer_stream):
            self.indexer_stream.wait_event(self.start_event)
            q = self.indexer.wq_b(qr).view(-1, self.indexer.n_heads, self.indexer.head_dim)
            self.indexer_stream.wait_event(self.aux_event)
            topk_indices = self.indexer.select(q, weights, k_fp8, k_scale)
            self.topk_event.record(self.indexer_stream)
        return topk_indices

    def forward(self, hidden_states):
        main = torch.cuda.current_stream()
        qr = self.q_a_proj(hidden_states)
        self.start_event.record(main)
        topk_indices = self._indexer_topk(hidden_states, qr)
        with torch.cuda.stream(self.aux_stream):
            latent_kv = self.compressor(hidden_states)
            self.kv_event.record(self.aux_stream)
        q = self.q_b_proj(qr)

        main.wait_event(self.topk_event)
        main.wait_event(self.kv_event)
        topk_indices.record_stream(main)
        latent_kv.record_stream(main)
        return q, latent_kv, topk_indices


@torch.inference_mode()
def run_layers(layers, hidden_states, attend):
    for layer in layers:
        q, latent_kv, topk = layer(hidden_states)
        hidden_states = hidden_states + attend(q, latent_kv, topk)
    return hidden_states
