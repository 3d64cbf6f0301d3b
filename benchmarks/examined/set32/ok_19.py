"""Pipeline stage with persistent send and receive buffers over point-to-point NCCL."""
import os

import torch
import torch.distributed as dist


class SendRing:
    """Outgoing activations are copied to one of `depth` buffers that NCCL reads."""

    def __init__(self, shape, dst, depth=2, dtype=torch.bfloat16):
        self.dst = dst
        self.buffers = [torch.empty(shape, dtype=dtype, device="cuda") for _ in range(depth)]
        self.works = [None] * depth
        self.turn = 0

    def send(self, x):
        i = self.turn
        self.turn = (i + 1) % len(self.buffers)
        if self.works[i] is not None:
            self.works[i].wait()
        self.buffers[i].copy_(x)
        self.works[i] = dist.isend(self.buffers[i], self.dst)

    def flush(self):
        for i, work in enumerate(self.works):
            if work is not None:
                work.wait()
                self.works[i] = None


class RecvSlot:
    """One buffer; `take` returns it filled with the next message."""

    def __init__(self, shape, src, dtype=torch.bfloat16):
        self.src = src
        self.buffer = torch.empty(shape, dtype=dtype, device="cuda")

    def take(self):
        work = dist.irecv(self.buffer, self.src)
        work.wait()
        return self.buffer


class Stage(torch.nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.Sequential(
                torch.nn.LayerNorm(dim), torch.nn.Linear(dim, dim), torch.nn.GELU()
            )
            for _ in range(depth)
        )

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


class PipelineRunner:
    def __init__(self, stage, shape):
        self.stage = stage
        self.shape = shape
        self.rank = dist.get_rank()
        self.world = dist.get_world_size()
        self.first = self.rank == 0
        self.last = self.rank == self.world - 1
        self.recv = None if self.first else RecvSlot(shape, self.rank - 1)
        self.send = None if self.last else SendRing(shape, self.rank + 1)
        self.norms = []

    @torch.inference_mode()
    def run(self, micro_batches):
        for i in range(len(micro_batches)):
            x = micro_batches[i] if self.first else self.recv.take()
            y = self.stage(x)
            if self.last:
                self.norms.append(y.float().norm())
            else:
                self.send.send(y)
        if self.send is not None:
            self.send.flush()
        return torch.stack(self.norms).tolist() if self.last else None


def main(dim=4096, tokens=2048, micro=32):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.manual_seed(dist.get_rank())
    stage = Stage(dim, 6).cuda().bfloat16().eval()
    runner = PipelineRunner(stage, (tokens, dim))
    batches = [
        torch.randn(tokens, dim, device="cuda", dtype=torch.bfloat16) if runner.first else None
        for _ in range(micro)
    ]
    norms = runner.run(batches)
    if norms is not None:
        print(norms[-1])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
