"""Ring exchange of activations over NVSHMEM symmetric memory, checked on the host."""
import argparse
from typing import List

import numpy as np
import nvshmem.core as nvshmem
import torch
from cuda.core.experimental import Device, system
from mpi4py import MPI


class RingExchange:
    """Symmetric send and receive tensors of one PE and the stream on which puts are issued."""

    def __init__(self, comm: MPI.Comm, shape, dtype: torch.dtype = torch.float32):
        self.comm = comm
        self.device = Device(comm.Get_rank() % system.num_devices)
        self.device.set_current()
        torch.cuda.set_device(self.device.device_id)
        nvshmem.init(device=self.device, mpi_comm=comm, initializer_method="mpi")
        self.stream = self.device.create_stream()
        self.pe, self.num_pes = nvshmem.my_pe(), nvshmem.n_pes()
        self.send = nvshmem.tensor(shape, dtype=dtype)
        self.recv = nvshmem.tensor(shape, dtype=dtype)
        self.recv.zero_()
        torch.cuda.synchronize()
        comm.Barrier()

    @property
    def next_pe(self) -> int:
        return (self.pe + 1) % self.num_pes

    def put(self, values: torch.Tensor) -> None:
        self.send.copy_(values)
        torch.cuda.synchronize()
        nvshmem.put(self.recv, self.send, remote_pe=self.next_pe, stream=self.stream)
        nvshmem.barrier(nvshmem.Teams.TEAM_WORLD, stream=self.stream)

    def received(self) -> np.ndarray:
        return self.recv.cpu().numpy()

    def finish_round(self) -> None:
        self.stream.sync()
        self.comm.Barrier()

    def close(self) -> None:
        self.stream.sync()
        nvshmem.free_tensor(self.send)
        nvshmem.free_tensor(self.recv)
        nvshmem.finalize()


def run(rounds: int, rows: int, columns: int) -> List[float]:
    ring = RingExchange(MPI.COMM_WORLD, (rows, columns))
    errors = []
    try:
        for step in range(rounds):
            ring.put(torch.full((rows, columns), float(ring.pe + step), device="cuda"))
            values = ring.received()
            expected = float((ring.pe - 1) % ring.num_pes + step)
            errors.append(float(np.abs(values - expected).max()))
            ring.finish_round()
    finally:
        ring.close()
    return errors


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=16)
    args = parser.parse_args()
    print(max(run(args.rounds, 1024, 4096)))
