"""Vocabulary-parallel head: logits are gathered while the penalty terms are prepared."""
import os

import torch
import torch.distributed as dist


class ParallelHead:
    def __init__(self, dim, vocab, group=None):
        self.group = group
        self.world = dist.get_world_size(group)
        self.weight = torch.randn(dim, vocab // self.world, device="cuda")

    def start(self, hidden):
        local = (hidden @ self.weight).contiguous()
        full = torch.empty(self.world, *local.shape, device="cuda")
        work = dist.all_gather_into_tensor(full, local, group=self.group, async_op=True)
        return PendingLogits(work, full, local)


class PendingLogits:
    def __init__(self, work, full, local):
        self._work = work
        self._full = full
        self._local = local

    @property
    def value(self):
        if self._work is not None:
            self._work.wait()
            self._work = None
            self._local = None
        return self._full.movedim(0, -2).flatten(-2)


def main(steps=64):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    head = ParallelHead(1024, 32000)
    h = torch.randn(16, 1024, device="cuda")
    counts = torch.zeros(16, 32000, device="cuda")
    for _ in range(steps):
        pending = head.start(h)
        penalty = counts.clamp(max=4) * 0.2
        ids = (pending.value - penalty).argmax(-1)
        counts.scatter_add_(1, ids[:, None], torch.ones_like(ids[:, None], dtype=counts.dtype))
        h = torch.tanh(h * 1.01)
    print(counts.sum().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
