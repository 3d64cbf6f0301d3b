"""Broadcast new requests along the pipeline-parallel ring with CUDA-aware MPI."""
import io
import pickle

import torch
from mpi4py import MPI


class PPCommunicator:
    def __init__(self, comm, device):
        self.comm = comm
        self.rank = comm.Get_rank()
        self.size = comm.Get_size()
        self.device = device

    @property
    def is_first_pp_rank(self):
        return self.rank == 0

    @property
    def is_last_pp_rank(self):
        return self.rank == self.size - 1

    def isend(self, buf, dest, tag):
        torch.cuda.current_stream(self.device).synchronize()
        return self.comm.Isend(buf, dest, tag)

    def recv(self, buf, src, tag):
        torch.cuda.current_stream(self.device).synchronize()
        self.comm.Recv(buf, src, tag)


class PyExecutor:
    def __init__(self, dist, model, request_queue, device, max_bytes=1 << 24):
        self.dist = dist
        self.model = model
        self.request_queue = request_queue
        self.device = device
        self.send_new_reqs_handle = [None, None]
        self.size_buf = torch.zeros(1, dtype=torch.int64, device=device)
        self.req_buf = torch.empty(max_bytes, dtype=torch.uint8, device=device)
        self.active = []

    def _fetch(self):
        reqs = []
        while not self.request_queue.empty():
            reqs.append(self.request_queue.get())
        return reqs

    def _broadcast_new_requests(self, new_requests):
        """Rank 0 serializes the requests, each rank forwards them to the next one."""
        if self.dist.is_first_pp_rank:
            bio = io.BytesIO()
            pickle.dump(new_requests, bio)
            host = torch.frombuffer(bytearray(bio.getvalue()), dtype=torch.uint8)
            n = host.numel()
            self.size_buf.fill_(n)
            self.req_buf[:n].copy_(host)
        else:
            self.dist.recv(self.size_buf, self.dist.rank - 1, tag=10)
            n = int(self.size_buf.item())
            self.dist.recv(self.req_buf[:n], self.dist.rank - 1, tag=11)
        if not self.dist.is_last_pp_rank:
            payload = ((self.size_buf, 10), (self.req_buf[:n], 11))
            for slot, (tensor, tag) in enumerate(payload):
                if self.send_new_reqs_handle[slot] is not None:
                    self.send_new_reqs_handle[slot].Wait()
                self.send_new_reqs_handle[slot] = self.dist.isend(
                    tensor, self.dist.rank + 1, tag
                )
        if self.dist.is_first_pp_rank:
            return new_requests
        return pickle.loads(self.req_buf[:n].cpu().numpy().tobytes())

    def _forward(self):
        tokens = torch.zeros(len(self.active), 4096, dtype=torch.int64, device=self.device)
        for i, req in enumerate(self.active):
            ids = torch.tensor(req["token_ids"])
            tokens[i, : len(ids)] = ids.to(self.device)
        return self.model(tokens)

    @torch.inference_mode()
    def executor_loop(self, steps):
        outputs = []
        for _ in range(steps):
            new = self._fetch() if self.dist.is_first_pp_rank else None
            self.active.extend(self._broadcast_new_requests(new))
            if self.active:
                outputs.append(self._forward().argmax(dim=-1))
        for handle in self.send_new_reqs_handle:
            if handle is not None:
                handle.Wait()
        return [o.cpu() for o in outputs]


def main(model, request_queue, steps=1000):
    comm = MPI.COMM_WORLD
    device = torch.device("cuda", comm.Get_rank())
    torch.cuda.set_device(device)
    executor = PyExecutor(PPCommunicator(comm, device), model.to(device), request_queue, device)
    return executor.executor_loop(steps)
