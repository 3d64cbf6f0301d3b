"""Data-parallel gradients reduced by CUDA-aware MPI, bucket by bucket."""
import torch
from mpi4py import MPI
from torch import nn


class MpiBucket:
    def __init__(self, params: list[nn.Parameter]):
        self.params = params
        self.flat = torch.zeros(sum(p.numel() for p in params), device=params[0].device)
        self.request = None

    def launch(self, comm: MPI.Comm) -> None:
        offset = 0
        for p in self.params:
            self.flat[offset:offset + p.numel()].copy_(p.grad.reshape(-1))
            offset += p.numel()
        torch.cuda.current_stream().synchronize()
        self.request = comm.Iallreduce(MPI.IN_PLACE, self.flat, op=MPI.SUM)

    def land(self, scale: float) -> None:
        self.request.Wait()
        self.request = None
        offset = 0
        for p in self.params:
            p.grad.copy_(self.flat[offset:offset + p.numel()].view_as(p)).mul_(scale)
            offset += p.numel()


class MpiReducer:
    def __init__(self, model: nn.Module, comm: MPI.Comm, bucket_numel: int):
        self.comm = comm
        self.buckets: list[MpiBucket] = []
        group: list[nn.Parameter] = []
        for p in model.parameters():
            group.append(p)
            if sum(q.numel() for q in group) >= bucket_numel:
                self.buckets.append(MpiBucket(group))
                group = []
        if group:
            self.buckets.append(MpiBucket(group))

    @torch.no_grad()
    def reduce(self) -> None:
        for bucket in self.buckets:
            bucket.launch(self.comm)
        for bucket in self.buckets:
            bucket.land(1.0 / self.comm.size)


def main():
    comm = MPI.COMM_WORLD
    torch.cuda.set_device(comm.rank % torch.cuda.device_count())
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512)).cuda()
    torch.manual_seed(comm.rank + 1)
    reducer = MpiReducer(model, comm, bucket_numel=1 << 18)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(50):
        x = torch.randn(64, 512, device="cuda")
        loss = (model(x) - x.flip(1)).square().mean()
        opt.zero_grad()
        loss.backward()
        reducer.reduce()
        opt.step()
    print(comm.rank, loss.item())


if __name__ == "__main__":
    main()
