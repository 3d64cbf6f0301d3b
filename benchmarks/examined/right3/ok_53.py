"""Face exchange of a PyTorch grid over plain MPI with pinned mailboxes."""
from dataclasses import dataclass
from typing import Optional

import numpy as np
import torch
from mpi4py import MPI


@dataclass
class Mailbox:
    peer: int
    send_tag: int
    recv_tag: int
    out: torch.Tensor
    inp: torch.Tensor
    staged: torch.cuda.Event
    consumed: torch.cuda.Event
    send_req: Optional[MPI.Request] = None

    @classmethod
    def make(cls, peer: int, send_tag: int, recv_tag: int, n: int) -> "Mailbox":
        return cls(peer, send_tag, recv_tag, torch.empty(n, pin_memory=True), torch.empty(n, pin_memory=True),
                   torch.cuda.Event(), torch.cuda.Event())

    def stage(self, face: torch.Tensor) -> None:
        if self.send_req is not None:
            self.send_req.Wait()
        self.out.copy_(face, non_blocking=True)
        self.staged.record()

    def post_recv(self, comm: MPI.Comm) -> MPI.Request:
        self.consumed.synchronize()
        return comm.Irecv(self.inp.numpy(), source=self.peer, tag=self.recv_tag)

    def post_send(self, comm: MPI.Comm) -> None:
        self.staged.synchronize()
        self.send_req = comm.Isend(self.out.numpy(), dest=self.peer, tag=self.send_tag)

    def unload(self, ghost: torch.Tensor) -> None:
        ghost.copy_(self.inp, non_blocking=True)
        self.consumed.record()


class WaveGrid:
    def __init__(self, comm: MPI.Comm, rows: int, cols: int):
        self.comm = comm
        up, down = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
        self.u = torch.randn(rows + 2, cols, device="cuda") * 0.1
        self.prev = self.u.clone()
        self.boxes = [Mailbox.make(up, 0, 1, cols), Mailbox.make(down, 1, 0, cols)]

    def exchange(self) -> None:
        faces, ghosts = (self.u[1], self.u[-2]), (self.u[0], self.u[-1])
        for box, face in zip(self.boxes, faces):
            box.stage(face)
        reqs = [box.post_recv(self.comm) for box in self.boxes]
        for box in self.boxes:
            box.post_send(self.comm)
        for _ in reqs:
            i = MPI.Request.Waitany(reqs)
            self.boxes[i].unload(ghosts[i])

    def step(self, c: float = 0.1) -> None:
        self.exchange()
        u = self.u
        lap = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
        nxt = u.clone()
        nxt[1:-1, 1:-1] = 2 * u[1:-1, 1:-1] - self.prev[1:-1, 1:-1] + c * lap
        self.prev, self.u = u, nxt


def main():
    comm = MPI.COMM_WORLD
    torch.cuda.set_device(comm.rank % torch.cuda.device_count())
    grid = WaveGrid(comm, 256, 512)
    for _ in range(100):
        grid.step()
    MPI.Request.Waitall([box.send_req for box in grid.boxes])
    total = np.array(grid.u[1:-1].square().sum().item())
    print(comm.rank, comm.allreduce(float(total)))


if __name__ == "__main__":
    main()
