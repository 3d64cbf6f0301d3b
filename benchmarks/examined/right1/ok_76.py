"""Gradient averaging started from hooks while backward is running."""
import os

import torch
import torch.distributed as dist


class OverlappedAverage:
    def __init__(self, params, bucket_elems=1 << 20):
        self.params = [p for p in params if p.requires_grad]
        self.bucket_elems = bucket_elems
        self._open = []
        self._elems = 0
        self._flying = []
        self._handles = [
            p.register_post_accumulate_grad_hook(self._on_grad) for p in self.params
        ]

    def _on_grad(self, p):
        self._open.append(p)
        self._elems += p.numel()
        if self._elems >= self.bucket_elems:
            self._launch()

    def _launch(self):
        bucket, self._open, self._elems = self._open, [], 0
        if not bucket:
            return
        flat = torch.cat([p.grad.flatten() for p in bucket])
        flat /= dist.get_world_size()
        self._flying.append((dist.all_reduce(flat, async_op=True), flat, bucket))

    def finish(self):
        self._launch()
        for work, flat, bucket in self._flying:
            work.wait()
            chunks = flat.split([p.numel() for p in bucket])
            for p, chunk in zip(bucket, chunks):
                p.grad.copy_(chunk.view_as(p))
        self._flying.clear()

    def remove(self):
        for h in self._handles:
            h.remove()


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        *[m for _ in range(6) for m in (torch.nn.Linear(1024, 1024), torch.nn.GELU())]
    ).to(device)
    average = OverlappedAverage(net.parameters())
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    gen = torch.Generator(device).manual_seed(dist.get_rank())
    for step in range(20):
        x = torch.randn(256, 1024, device=device, generator=gen)
        loss = (net(x) - x).square().mean()
        opt.zero_grad()
        loss.backward()
        average.finish()
        opt.step()
        if step % 5 == 0 and dist.get_rank() == 0:
            print(step, loss.item())
    average.remove()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
