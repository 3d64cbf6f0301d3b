"""Paged attention wrapper: host-side planning of the work split, device-side execution."""
import numpy as np
import torch


class SplitPlan:
    def __init__(self, request_of_tile, tile_start, tile_len, num_tiles):
        self.request_of_tile = request_of_tile
        self.tile_start = tile_start
        self.tile_len = tile_len
        self.num_tiles = num_tiles


class BatchDecodeWrapper:
    """`plan` is called once per scheduler step, `run` once per layer."""

    def __init__(self, max_batch, tile_tokens=256, max_tiles=4096, device="cuda"):
        self.device = torch.device(device)
        self.tile_tokens = tile_tokens
        self._indptr_host = torch.zeros(max_batch + 1, dtype=torch.int32, pin_memory=True)
        self._plan_dev = torch.zeros(3, max_tiles, dtype=torch.int32, device=self.device)
        self._plan = None

    def plan(self, kv_indptr, page_size):
        """kv_indptr: int32 device tensor with the page offsets of each request."""
        n = kv_indptr.numel()
        indptr_host = self._indptr_host[:n]
        indptr_host.copy_(kv_indptr, non_blocking=True)
        indptr = indptr_host.numpy()
        lengths = np.diff(indptr) * page_size
        request, start, length = [], [], []
        for r, total in enumerate(lengths):
            for begin in range(0, int(total), self.tile_tokens):
                request.append(r)
                start.append(begin)
                length.append(min(self.tile_tokens, int(total) - begin))
        table = torch.tensor([request, start, length], dtype=torch.int32)
        num_tiles = table.shape[1]
        self._plan_dev[:, :num_tiles].copy_(table)
        self._plan = SplitPlan(*self._plan_dev[:, :num_tiles].unbind(0), num_tiles)

    def run(self, q, k_tiles, v_tiles):
        """q [B, H, D]; k_tiles/v_tiles [tiles, tile_tokens, H, D]."""
        plan = self._plan
        k = k_tiles[: plan.num_tiles]
        v = v_tiles[: plan.num_tiles]
        qt = q[plan.request_of_tile.long()]
        score = torch.einsum("thd,tshd->ths", qt, k) * q.shape[-1] ** -0.5
        pos = torch.arange(self.tile_tokens, device=q.device)
        mask = pos[None, None, :] >= plan.tile_len[:, None, None]
        score = score.masked_fill(mask, float("-inf"))
        top = score.amax(-1, keepdim=True)
        weight = (score - top).exp()
        part = torch.einsum("ths,tshd->thd", weight, v)
        scale = top.exp()
        num = torch.zeros_like(q).index_add_(0, plan.request_of_tile.long(), part * scale)
        den = torch.zeros(q.shape[:2] + (1,), device=q.device).index_add_(
            0, plan.request_of_tile.long(), weight.sum(-1, keepdim=True) * scale
        )
        return num / den.clamp_min(1e-20)


class PageTable:
    """Keeps the number of pages of each request on the device."""

    def __init__(self, batch, device="cuda"):
        self.pages = torch.ones(batch, dtype=torch.int32, device=device)

    def grow(self, sampled, eos):
        self.pages += (sampled != eos).to(torch.int32)

    def indptr(self):
        zero = self.pages.new_zeros(1)
        return torch.cat([zero, self.pages.cumsum(0, dtype=torch.int32)])


@torch.inference_mode()
def decode(steps, batch=16, heads=8, dim=128):
    wrapper = BatchDecodeWrapper(batch)
    table = PageTable(batch)
    k = torch.randn(512, 256, heads, dim, device="cuda")
    v = torch.randn_like(k)
    q = torch.randn(batch, heads, dim, device="cuda")
    for _ in range(steps):
        wrapper.plan(table.indptr(), page_size=16)
        for _ in range(4):
            q = wrapper.run(q, k, v)
        table.grow(q.mean((1, 2)).mul(100).int(), eos=0)
    return q
