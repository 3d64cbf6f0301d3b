"""Paged decode loop with a per-iteration block-offset table."""
import numpy as np
import torch

PAGE = 16


class BlockOffsetTable:
    def __init__(self, max_batch, max_blocks, device):
        self.max_blocks = max_blocks
        self.host = torch.zeros(max_batch, max_blocks, dtype=torch.int32, pin_memory=True)
        self.host_np = self.host.numpy()
        self.dev = torch.zeros(max_batch, max_blocks, dtype=torch.int32, device=device)

    def upload(self, requests):
        n = len(requests)
        for row, req in enumerate(requests):
            blocks = req.blocks
            self.host_np[row, : len(blocks)] = blocks
            self.host_np[row, len(blocks):] = -1
        self.dev[:n].copy_(self.host[:n], non_blocking=True)
        return self.dev[:n]


class Request:
    def __init__(self, rid, prompt_len):
        self.rid = rid
        self.length = prompt_len
        self.blocks = []

    def grow(self, free_list):
        need = -(-(self.length + 1) // PAGE)
        while len(self.blocks) < need:
            self.blocks.append(free_list.pop())
        self.length += 1


class PagedDecoder:
    def __init__(self, num_pages=2048, heads=8, dim=64, device="cuda"):
        self.device = torch.device(device)
        self.heads, self.dim = heads, dim
        self.kv = torch.randn(num_pages, PAGE, heads, dim, device=self.device)
        self.free = list(range(num_pages))
        self.table = BlockOffsetTable(64, 128, self.device)
        self.wq = torch.randn(heads * dim, heads * dim, device=self.device)
        self.state = torch.randn(64, heads * dim, device=self.device)

    def attend(self, offsets, hidden):
        n = offsets.shape[0]
        valid = offsets >= 0
        pages = self.kv[offsets.clamp(min=0).long()]
        pages = pages * valid[:, :, None, None, None]
        keys = pages.flatten(1, 2)
        q = (hidden @ self.wq).view(n, self.heads, self.dim)
        att = torch.einsum("nhd,nthd->nht", q, keys).softmax(-1)
        return torch.einsum("nht,nthd->nhd", att, keys).reshape(n, -1)

    @torch.inference_mode()
    def step(self, requests):
        for r in requests:
            r.grow(self.free)
        offsets = self.table.upload(requests)
        hidden = self.state[: len(requests)]
        hidden.add_(self.attend(offsets, hidden))
        return hidden

    def retire(self, requests, limit):
        alive = []
        for r in requests:
            if r.length >= limit:
                self.free.extend(r.blocks)
            else:
                alive.append(r)
        return alive


def main():
    rng = np.random.default_rng(1)
    decoder = PagedDecoder()
    active = [Request(i, int(rng.integers(8, 200))) for i in range(32)]
    hidden = None
    for _ in range(64):
        if not active:
            break
        hidden = decoder.step(active)
        active = decoder.retire(active, limit=220)
    torch.cuda.synchronize()
    print(hidden.float().norm().item())


if __name__ == "__main__":
    main()
