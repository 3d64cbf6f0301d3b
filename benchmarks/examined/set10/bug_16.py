import cupy as cp
import cupyx
import numpy as np


class LayerKV:
    def __init__(self, max_seq, n_kv, head_dim):
        self.k = cp.empty((max_seq, n_kv * head_dim), dtype=cp.float16)
        self.v = cp.empty((max_seq, n_kv * head_dim), dtype=cp.float16)


class FusedEngine:
    """QKV on the NPU (numpy in, numpy out), attention over the KV cache on the GPU."""

    def __init__(self, npu, n_layers, n_heads, n_kv, head_dim, max_seq=4096):
        self.npu = npu
        self.n_layers = n_layers
        self.n_heads, self.n_kv, self.head_dim = n_heads, n_kv, head_dim
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.kv = [LayerKV(max_seq, n_kv, head_dim) for _ in range(n_layers)]
        row = n_kv * head_dim
        self.kv_staging = cupyx.empty_pinned((row,), dtype=np.float16)
        self.q_staging = cupyx.empty_pinned((n_heads * head_dim,), dtype=np.float16)
        with self.stream:
            self.q = cp.empty(n_heads * head_dim, dtype=cp.float16)

    def _append_kv(self, layer, pos, k, v):
        kv = self.kv[layer]
        self.kv_staging[:] = k
        kv.k[pos].set(self.kv_staging, stream=self.stream)
        self.kv_staging[:] = v
        kv.v[pos].set(self.kv_staging, stream=self.stream)

    def _attention(self, layer, pos, q):
        kv = self.kv[layer]
        self.q_staging[:] = q
        self.q.set(self.q_staging, stream=self.stream)
        with self.stream:
            n = pos + 1
            group = self.n_heads // self.n_kv
            qh = self.q.reshape(self.n_kv, group, self.head_dim).astype(cp.float32)
            kh = kv.k[:n].reshape(n, self.n_kv, self.head_dim).transpose(1, 2, 0).astype(cp.float32)
            vh = kv.v[:n].reshape(n, self.n_kv, self.head_dim).transpose(1, 0, 2).astype(cp.float32)
            scores = cp.matmul(qh, kh) / np.sqrt(self.head_dim)
            scores -= scores.max(axis=-1, keepdims=True)
            probs = cp.exp(scores)
            probs /= probs.sum(axis=-1, keepdims=True)
            out = cp.matmul(probs, vh).reshape(-1)
        return out.get(stream=self.stream)

    def decode_token(self, hidden, pos):
        for layer in range(self.n_layers):
            q, k, v = self.npu.qkv(layer, hidden, pos)
            self._append_kv(layer, pos, k, v)
            attn = self._attention(layer, pos, q)
            hidden = self.npu.out_and_mlp(layer, hidden, attn)
        return hidden
