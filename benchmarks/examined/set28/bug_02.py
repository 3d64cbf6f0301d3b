import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class RowParallelLinear(nn.Module):
    """Row-parallel projection; large batches are split in two to overlap GEMM and all-reduce."""

    def __init__(self, in_per_rank, out_features, group, min_rows=256):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_features, in_per_rank, device="cuda", dtype=torch.bfloat16))
        nn.init.normal_(self.weight, std=0.02)
        self.group = group
        self.min_rows = min_rows
        self.backup_stream = torch.cuda.Stream()

    def _gemm_and_reduce(self, x):
        y = F.linear(x, self.weight)
        dist.all_reduce(y, group=self.group)
        return y

    def forward(self, input_parallel):
        rows = input_parallel.shape[0]
        if rows < self.min_rows:
            return self._gemm_and_reduce(input_parallel)

        half = rows // 2
        event = torch.cuda.Event()
        event2 = torch.cuda.Event()
        event.record()

        with torch.cuda.stream(self.backup_stream):
            event.wait()
            second_output = self._gemm_and_reduce(input_parallel[half:])
            event2.wait()

        first_output = self._gemm_and_reduce(input_parallel[:half])
        event2.wait()
        return torch.cat([first_output, second_output], dim=0)


class MLP(nn.Module):
    def __init__(self, hidden, inter_per_rank, group):
        super().__init__()
        self.up = nn.Linear(hidden, inter_per_rank, bias=False, device="cuda", dtype=torch.bfloat16)
        self.down = RowParallelLinear(inter_per_rank, hidden, group)

    def forward(self, x):
        return x + self.down(F.silu(self.up(x)))


@torch.inference_mode()
def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    layers = nn.ModuleList(MLP(4096, 14336 // dist.get_world_size(), dist.group.WORLD) for _ in range(8))
    x = torch.randn(2048, 4096, device="cuda", dtype=torch.bfloat16)
    for layer in layers:
        x = layer(x)
    print(x.float().norm().item())


if __name__ == "__main__":
    main()
