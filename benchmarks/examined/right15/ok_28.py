"""Ring attention over ranks: keys and values travel while the local block is scored."""
import os

import torch
import torch.distributed as dist


def _exchange(tensor, group, rank, world):
    incoming = torch.empty_like(tensor)
    ops = [dist.P2POp(dist.isend, tensor, (rank + 1) % world, group),
           dist.P2POp(dist.irecv, incoming, (rank - 1) % world, group)]
    return incoming, dist.batch_isend_irecv(ops)


def _merge(out, lse, block_out, block_lse):
    new = torch.logaddexp(lse, block_lse)
    out = out * (lse - new).exp().unsqueeze(-1) + \
        block_out * (block_lse - new).exp().unsqueeze(-1)
    return out, new


@torch.no_grad()
def ring_attention(q, k, v, group=None):
    world = dist.get_world_size(group)
    rank = dist.get_rank(group)
    scale = q.shape[-1] ** -0.5
    kv = torch.stack((k, v))
    out = torch.zeros_like(q)
    lse = torch.full(q.shape[:-1], float("-inf"), device=q.device, dtype=q.dtype)
    for hop in range(world):
        arriving, works = None, ()
        if hop + 1 < world:
            arriving, works = _exchange(kv, group, rank, world)
        scores = torch.einsum("bhqd,bhkd->bhqk", q, kv[0]) * scale
        block_lse = scores.logsumexp(-1)
        block_out = torch.einsum("bhqk,bhkd->bhqd",
                                 (scores - block_lse.unsqueeze(-1)).exp(), kv[1])
        out, lse = _merge(out, lse, block_out, block_lse)
        for work in works:
            work.wait()
        if arriving is not None:
            kv = arriving
    return out


def main():
    dist.init_process_group("nccl")
    local = int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(local)
    torch.manual_seed(dist.get_rank())
    q, k, v = (torch.randn(2, 4, 128, 64, device="cuda") for _ in range(3))
    out = ring_attention(q, k, v)
    world = dist.get_world_size()
    ks = [torch.empty_like(k) for _ in range(world)]
    vs = [torch.empty_like(v) for _ in range(world)]
    dist.all_gather(ks, k)
    dist.all_gather(vs, v)
    full = torch.nn.functional.scaled_dot_product_attention(
        q, torch.cat(ks, 2), torch.cat(vs, 2))
    torch.testing.assert_close(out, full, rtol=1e-3, atol=1e-3)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
