"""Data-parallel gradient averaging through host MPI."""
import torch
from mpi4py import MPI


class Bucket:
    def __init__(self, params):
        self.params = params
        self.numel = sum(p.numel() for p in params)
        self.device_flat = torch.empty(self.numel, device="cuda")
        self.host_flat = torch.empty(self.numel, pin_memory=True)
        self.view = self.host_flat.numpy()
        self.ready = torch.cuda.Event()
        self.landed = torch.cuda.Event()
        self.request = None

    def pack(self):
        torch.cat([p.grad.reshape(-1) for p in self.params], out=self.device_flat)

    def unpack(self):
        offset = 0
        for p in self.params:
            chunk = self.device_flat[offset : offset + p.numel()]
            p.grad.copy_(chunk.view_as(p.grad))
            offset += p.numel()


class HostReducer:
    def __init__(self, comm, params, bucket_numel=1 << 20):
        self.comm = comm
        self.d2h = torch.cuda.Stream()
        self.h2d = torch.cuda.Stream()
        self.buckets = []
        group, size = [], 0
        for p in params:
            group.append(p)
            size += p.numel()
            if size >= bucket_numel:
                self.buckets.append(Bucket(group))
                group, size = [], 0
        if group:
            self.buckets.append(Bucket(group))

    def average(self):
        main = torch.cuda.current_stream()
        for bucket in self.buckets:
            bucket.pack()
        self.d2h.wait_stream(main)
        with torch.cuda.stream(self.d2h):
            for bucket in self.buckets:
                self.d2h.wait_event(bucket.landed)
                bucket.host_flat.copy_(bucket.device_flat, non_blocking=True)
                bucket.ready.record()
        for bucket in self.buckets:
            bucket.ready.synchronize()
            bucket.request = self.comm.Iallreduce(MPI.IN_PLACE, bucket.view, op=MPI.SUM)
        with torch.cuda.stream(self.h2d):
            for bucket in self.buckets:
                bucket.request.Wait()
                bucket.device_flat.copy_(bucket.host_flat, non_blocking=True)
                bucket.device_flat.div_(self.comm.Get_size())
                bucket.landed.record()
        for bucket in self.buckets:
            main.wait_event(bucket.landed)
            bucket.unpack()


def main(steps=20):
    comm = MPI.COMM_WORLD
    torch.cuda.set_device(comm.Get_rank() % torch.cuda.device_count())
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 10)
    ).cuda()
    reducer = HostReducer(comm, list(model.parameters()))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss = None
    for _ in range(steps):
        x = torch.randn(128, 256, device="cuda")
        y = torch.randint(0, 10, (128,), device="cuda")
        opt.zero_grad(set_to_none=False)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        reducer.average()
        opt.step()
    return loss.item()


if __name__ == "__main__":
    print(main())
