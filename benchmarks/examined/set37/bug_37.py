"""Forward part of a pipeline schedule; the next input is fetched while a micro-batch runs."""
import os

import torch
import torch.distributed as dist
from torch import nn


class P2PCommunicator:
    def __init__(self, rank, world_size, micro_shape, device, dtype=torch.bfloat16):
        self.prev_rank = rank - 1
        self.next_rank = rank + 1
        self.is_first = rank == 0
        self.is_last = rank == world_size - 1
        self.recv_buffer = torch.empty(micro_shape, device=device, dtype=dtype)
        self._recv_work = None
        self._send_works = []

    def post_recv(self):
        if not self.is_first:
            self._recv_work = dist.irecv(self.recv_buffer, src=self.prev_rank)

    def wait_recv(self):
        if self.is_first:
            return None
        self._recv_work.wait()
        self._recv_work = None
        return self.recv_buffer

    def send_next(self, tensor):
        if self.is_last:
            return
        while len(self._send_works) > 2:
            work, _ = self._send_works.pop(0)
            work.wait()
        self._send_works.append((dist.isend(tensor, dst=self.next_rank), tensor))

    def flush(self):
        for work, _ in self._send_works:
            work.wait()
        self._send_works = []


class StageModule(nn.Module):
    def __init__(self, hidden, layers):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(hidden, 16, 4 * hidden, dropout=0.0, batch_first=True)
            for _ in range(layers)
        )

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class ForwardSchedule:
    def __init__(self, stage, comm):
        self.stage = stage
        self.comm = comm

    @torch.inference_mode()
    def run(self, batches):
        """batches: inputs on the first stage, a count on the others."""
        count = len(batches) if self.comm.is_first else batches
        outputs = []
        self.comm.post_recv()
        for k in range(count):
            received = self.comm.wait_recv()
            need_recv_next = k < count - 1
            if need_recv_next:
                self.comm.post_recv()
            source = batches[k] if self.comm.is_first else received
            out = self.stage(source)
            if self.comm.is_last:
                outputs.append(out.float().mean(dim=(1, 2)))
            else:
                self.comm.send_next(out)
        self.comm.flush()
        return outputs


def main(micro_batches=16, micro_shape=(4, 1024, 2048), layers=6):
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)

    comm = P2PCommunicator(rank, world, micro_shape, device)
    stage = StageModule(micro_shape[-1], layers).to(device, torch.bfloat16).eval()
    schedule = ForwardSchedule(stage, comm)
    for _ in range(4):
        if comm.is_first:
            work = [torch.randn(micro_shape, device=device, dtype=torch.bfloat16)
                    for _ in range(micro_batches)]
        else:
            work = micro_batches
        outputs = schedule.run(work)
        if comm.is_last:
            print(torch.cat(outputs).mean().item())
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
