import functools
import math

import torch


@functools.lru_cache(maxsize=16)
def get_meta_param(num_kv_splits, bs, total_kv, nhead, cu_num):
    if num_kv_splits is None:
        best, num_kv_splits = -1.0, 1
        for i in range(1, 17):
            waves = math.ceil(bs * i / cu_num)
            eff = bs * i / (waves * cu_num) * (total_kv / bs) / (total_kv / bs + 84.1 * i)
            if eff > best:
                best, num_kv_splits = eff, i
    return num_kv_splits


def mla_decode_fwd(q, kv, kv_indptr, total_kv, sm_scale, num_kv_splits=None):
    bs, nhead, dim = q.shape
    cu_num = torch.cuda.get_device_properties(q.device).multi_processor_count
    num_kv_splits = get_meta_param(num_kv_splits, bs, total_kv, nhead, cu_num)
    indptr = torch.arange(0, (bs + 1) * num_kv_splits, num_kv_splits, dtype=torch.int32, device=q.device)
    max_len = kv.shape[1]
    pos = torch.arange(max_len, device=q.device)
    valid = pos[None, :] < (kv_indptr[1:] - kv_indptr[:-1])[:, None]
    scores = torch.einsum("bhd,bld->bhl", q, kv) * sm_scale
    scores = scores.masked_fill(~valid[:, None, :], float("-inf"))
    split = (pos[None, :] * num_kv_splits) // max_len + indptr[:-1, None]
    lse = torch.full((bs * num_kv_splits, nhead), float("-inf"), device=q.device)
    rows = split[:, None, :].expand_as(scores).permute(0, 2, 1).reshape(-1, nhead).long()
    lse.scatter_reduce_(0, rows, scores.permute(0, 2, 1).reshape(-1, nhead), "amax")
    m = lse.view(bs, num_kv_splits, nhead).amax(dim=1)
    p = torch.exp(scores - m[..., None])
    return torch.einsum("bhl,bld->bhd", p / p.sum(-1, keepdim=True), kv)


class MLADecoder:
    def __init__(self, max_bs, max_len, nhead, dim, sm_scale):
        self.q = torch.zeros(max_bs, nhead, dim, device="cuda")
        self.kv = torch.zeros(max_bs, max_len, dim, device="cuda")
        self.kv_indptr = torch.arange(max_bs + 1, dtype=torch.int32, device="cuda")
        self.sm_scale = sm_scale
        self.max_bs = max_bs
        self.graph = None

    def capture(self):
        args = (self.q, self.kv, self.kv_indptr, self.max_bs, self.sm_scale)
        mla_decode_fwd(*args)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = mla_decode_fwd(*args)

    def decode(self, q, kv, kv_indptr, total_kv):
        bs = q.shape[0]
        if bs != self.max_bs:
            return mla_decode_fwd(q, kv, kv_indptr, total_kv, self.sm_scale)
        if self.graph is None:
            self.capture()
        self.q.copy_(q)
        self.kv.copy_(kv)
        self.kv_indptr.copy_(kv_indptr)
        self.graph.replay()
        return self.out.clone()
