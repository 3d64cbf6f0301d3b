import torch
import torch.distributed as dist


def all_gather_async(input, group, output=None, async_op=True):
    world_size = dist.get_world_size(group)
    if world_size == 1:
        return input, None
    if output is None:
        output = torch.empty(
            (input.shape[0] * world_size, *input.shape[1:]), dtype=input.dtype, device=input.device
        )
    handle = dist.all_gather_into_tensor(output, input.contiguous(), group=group, async_op=async_op)
    return output, handle


class SparseMLAIndexer(torch.nn.Module):
    def __init__(self, hidden, kv_rank, rope_dim, index_dim, cp_group, tp_group):
        super().__init__()
        self.kv_a_proj = torch.nn.Linear(hidden, kv_rank + rope_dim, bias=False)
        self.wk = torch.nn.Linear(hidden, index_dim, bias=False)
        self.wq = torch.nn.Linear(hidden, index_dim, bias=False)
        self.kv_rank = kv_rank
        self.rope_dim = rope_dim
        self.cp_group = cp_group
        self.tp_group = tp_group

    def indexer_k(self, hidden):
        k = torch.nn.functional.normalize(self.wk(hidden), dim=-1)
        return k.to(hidden.dtype)

    def exec_kv(self, hidden):
        kv, k_pe = self.kv_a_proj(hidden).split([self.kv_rank, self.rope_dim], dim=-1)
        return kv.contiguous(), k_pe.contiguous()

    def forward(self, hidden, slot_mapping, kv_cache, pe_cache, index_cache, async_op=True):
        kv, k_pe = self.exec_kv(hidden)
        k_li = self.indexer_k(hidden)

        kv, _ = all_gather_async(kv, self.cp_group, async_op=async_op)
        k_pe, _ = all_gather_async(k_pe, self.cp_group, async_op=async_op)
        k_li, kv_ag_handle = all_gather_async(k_li, self.tp_group, async_op=async_op)

        q = self.wq(hidden)

        if kv_ag_handle is not None:
            kv_ag_handle.wait()
        index_cache.index_copy_(0, slot_mapping[: k_li.shape[0]], k_li)
        kv_cache.index_copy_(0, slot_mapping, kv)
        pe_cache.index_copy_(0, slot_mapping, k_pe)
        scores = q @ index_cache.T
        return scores.topk(min(2048, scores.shape[-1]), dim=-1).indices
