import os

import cupy as cp
import torch
import torch.distributed as dist

quantize = cp.ElementwiseKernel("float32 g, float32 s", "float32 q",
                                "q = rintf(g / s) * s", "quantize")


class CompressedSync:
    """Quantizes gradients with CuPy and averages them in the background."""

    def __init__(self, params, step):
        self.params = list(params)
        self.step = step
        self.pending = []

    def _quantized(self, g):
        with cp.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            return torch.from_dlpack(quantize(cp.from_dlpack(g), cp.float32(self.step)))

    def launch(self):
        for p in self.params:
            q = self._quantized(p.grad)
            work = dist.all_reduce(q, async_op=True)
            self.pending.append((p, q, work))

    def finish(self):
        world = dist.get_world_size()
        for p, q, work in self.pending:
            work.wait()
            p.grad.copy_(q).div_(world)
        self.pending.clear()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    cp.cuda.Device(int(os.environ["LOCAL_RANK"])).use()
    model = torch.nn.Linear(256, 256).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    sync = CompressedSync(model.parameters(), 1e-3)
    for _ in range(20):
        x = torch.randn(128, 256, device="cuda")
        loss = (model(x) - x).square().mean()
        opt.zero_grad()
        loss.backward()
        sync.launch()
        penalty = sum(p.detach().abs().mean() for p in model.parameters())
        sync.finish()
        opt.step()
    print(loss.item(), penalty.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
