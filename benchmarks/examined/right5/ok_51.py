import os

import cupy as cp
import torch
from cupy.cuda import nccl
from mpi4py import MPI


class NcclComm:
    def __init__(self, comm):
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        uid = nccl.get_unique_id() if self.rank == 0 else None
        self.comm = nccl.NcclCommunicator(self.size, comm.bcast(uid), self.rank)
        self.stream = torch.cuda.Stream(priority=-1)

    def fused_all_reduce(self, tensors):
        """Sum each float32 tensor over all ranks, in place."""
        self.stream.wait_stream(torch.cuda.current_stream())
        ptr = self.stream.cuda_stream
        nccl.groupStart()
        for t in tensors:
            self.comm.allReduce(t.data_ptr(), t.data_ptr(), t.numel(), nccl.NCCL_FLOAT32, nccl.NCCL_SUM, ptr)
        nccl.groupEnd()
        return self.stream.record_event()


class Trainer:
    def __init__(self, comm):
        self.nccl = NcclComm(comm)
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256)).cuda()
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.05)

    def step(self, x):
        loss = (self.net(x) - x).square().mean()
        self.opt.zero_grad(set_to_none=False)
        loss.backward()
        reduced = self.nccl.fused_all_reduce([p.grad for p in self.net.parameters()])
        stats = torch.stack([loss.detach(), x.abs().mean()])
        torch.cuda.current_stream().wait_event(reduced)
        torch._foreach_div_([p.grad for p in self.net.parameters()], self.nccl.size)
        self.opt.step()
        return stats


def main():
    comm = MPI.COMM_WORLD
    local = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", comm.Get_rank()))
    torch.cuda.set_device(local)
    cp.cuda.Device(local).use()
    trainer = Trainer(comm)
    for i in range(50):
        stats = trainer.step(torch.randn(128, 256, device="cuda"))
    print(comm.Get_rank(), stats.tolist())


if __name__ == "__main__":
    main()
