"""Sparse attention over a sharded cache: the latent cache and the token index are
gathered over two groups while the query is projected."""
import torch
import torch.distributed as dist
import torch.nn as nn


def all_gather_async(x, group):
    world = dist.get_world_size(group)
    out = x.new_empty((world * x.shape[0],) + tuple(x.shape[1:]))
    handle = dist.all_gather_into_tensor(out, x.contiguous(), group=group, async_op=True)
    return out, handle


class GatheredCache:
    def __init__(self, kv_group, index_group):
        self.kv_group = kv_group
        self.index_group = index_group
        self.handle = None

    def start(self, kv, index_key, index_scale):
        self.kv_full, _ = all_gather_async(kv, self.kv_group)
        self.key_full, _ = all_gather_async(index_key, self.index_group)
        self.scale_full, handle = all_gather_async(index_scale, self.index_group)
        self.handle = handle

    def finish(self):
        if self.handle is not None:
            self.handle.wait()
            self.handle = None
        return self.kv_full, self.key_full, self.scale_full


class SparseAttention(nn.Module):
    def __init__(self, dim, latent, heads, topk, kv_group, index_group):
        super().__init__()
        self.heads, self.topk = heads, topk
        self.q_proj = nn.Linear(dim, heads * latent, bias=False)
        self.kv_proj = nn.Linear(dim, latent, bias=False)
        self.idx_q = nn.Linear(dim, 64, bias=False)
        self.idx_k = nn.Linear(dim, 64, bias=False)
        self.out = nn.Linear(heads * latent, dim, bias=False)
        self.cache = GatheredCache(kv_group, index_group)

    def quantize_index(self, x):
        key = self.idx_k(x)
        scale = key.abs().amax(-1, keepdim=True).clamp_min(1e-6) / 127
        return (key / scale).round().to(torch.int8), scale

    def attend(self, q, iq, kv, ikey, iscale):
        score = iq @ (ikey.to(iq.dtype) * iscale).t()
        top = score.topk(min(self.topk, score.shape[-1]), dim=-1).indices
        picked = kv[top]
        w = torch.einsum("thd,tkd->thk", q, picked).softmax(-1)
        return torch.einsum("thk,tkd->thd", w, picked).flatten(1)

    def forward(self, x):
        ikey, iscale = self.quantize_index(x)
        self.cache.start(self.kv_proj(x), ikey, iscale)
        q = self.q_proj(x).unflatten(-1, (self.heads, -1))
        iq = self.idx_q(x)
        kv, ikey, iscale = self.cache.finish()
        return self.out(self.attend(q, iq, kv, ikey, iscale))


def build(dim=2048, latent=512, heads=16, topk=256):
    world = dist.get_world_size()
    kv_group = dist.new_group(list(range(world)))
    index_group = dist.new_group(list(range(world)))
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    return SparseAttention(dim, latent, heads, topk, kv_group, index_group).cuda().half()


@torch.inference_mode()
def run(model, batches):
    return [model(b.cuda().half()).float().sum().item() for b in batches]
