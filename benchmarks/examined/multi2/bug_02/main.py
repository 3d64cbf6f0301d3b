import torch

from kv import BlockPool, Swapper
from scheduler import Scheduler, Sequence


class Prefill:
    """Projects prompt embeddings to keys and values, page by page."""

    def __init__(self, pool, hidden=2048):
        self.pool = pool
        heads, dim = pool.pages.shape[2], pool.pages.shape[4]
        self.wk = torch.randn(hidden, heads * dim, device="cuda", dtype=torch.float16) * 0.02
        self.wv = torch.randn(hidden, heads * dim, device="cuda", dtype=torch.float16) * 0.02
        self.heads, self.dim, self.hidden = heads, dim, hidden

    def __call__(self, seq):
        x = torch.randn(self.pool.block, self.hidden, device="cuda", dtype=torch.float16)
        k = (x @ self.wk).view(-1, self.heads, self.dim).transpose(0, 1)
        v = (x @ self.wv).view(-1, self.heads, self.dim).transpose(0, 1)
        for b in seq.blocks:
            page = self.pool.pages[b]
            page[0].copy_(k)
            page[1].copy_(v)


@torch.inference_mode()
def main():
    torch.cuda.set_device(0)
    pool = BlockPool(n_gpu=128, n_host=2048)
    sched = Scheduler(pool, Swapper(pool))
    prefill = Prefill(pool)
    live = []
    for sid in range(40):
        seq = sched.admit(Sequence(sid, n_blocks=32))
        prefill(seq)
        live.append(seq)
    while sched.running:
        sched.finish(sched.running[0])
        sched.resume()
    torch.cuda.synchronize()
    print("served", len(live))


if __name__ == "__main__":
    main()
