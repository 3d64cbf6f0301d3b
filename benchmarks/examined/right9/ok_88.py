import numpy as np
import torch
from mpi4py import MPI


class StagedReducer:
    """Sums flat gradients over ranks through pinned memory, chunk by chunk."""

    def __init__(self, comm, numel, chunks=4):
        self.comm = comm
        self.stream = torch.cuda.Stream()
        self.send = torch.zeros(numel).pin_memory()
        self.recv = torch.zeros(numel).pin_memory()
        edges = np.linspace(0, numel, chunks + 1).astype(int)
        self.spans = [slice(int(a), int(b)) for a, b in zip(edges, edges[1:])]

    def begin(self, flat):
        self.stream.wait_stream(torch.cuda.current_stream())
        events = []
        with torch.cuda.stream(self.stream):
            for span in self.spans:
                self.send[span].copy_(flat[span], non_blocking=True)
                events.append(self.stream.record_event())
        requests = []
        for span, event in zip(self.spans, events):
            event.synchronize()
            requests.append(self.comm.Iallreduce(self.send[span].numpy(), self.recv[span].numpy(), op=MPI.SUM))
        return requests

    def finish(self, flat, requests):
        for span, request in zip(self.spans, requests):
            request.Wait()
            flat[span].copy_(self.recv[span], non_blocking=True)
        torch.cuda.current_stream().synchronize()
        flat.div_(self.comm.Get_size())


def main():
    comm = MPI.COMM_WORLD
    torch.cuda.set_device(comm.Get_rank() % torch.cuda.device_count())
    torch.manual_seed(0)
    w = torch.randn(1 << 20, device="cuda", requires_grad=True)
    reducer = StagedReducer(comm, w.numel())
    torch.manual_seed(comm.Get_rank() + 10)
    for step in range(20):
        x = torch.randn(1 << 20, device="cuda")
        loss = (w * x - x).square().mean()
        (grad,) = torch.autograd.grad(loss, w)
        requests = reducer.begin(grad)
        decay = w.detach() * 1e-4
        reducer.finish(grad, requests)
        with torch.no_grad():
            w.sub_(1e3 * grad + decay)
        if comm.Get_rank() == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
