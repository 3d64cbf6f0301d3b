"""Ghost-cell exchange of electromagnetic fields between ranks, buffers passed to MPI from GPU memory."""
import cupy as cp
from mpi4py import MPI

FIELDS = ("Ex", "Ey", "Bz")


class GuardCells:
    def __init__(self, comm, nr, n_guard):
        self.comm = comm
        self.n_guard = n_guard
        self.up = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
        self.down = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
        shape = (len(FIELDS), n_guard, nr)
        self.send_up = cp.zeros(shape)
        self.send_down = cp.zeros(shape)
        self.recv_up = cp.zeros(shape)
        self.recv_down = cp.zeros(shape)

    def pack(self, grid):
        g = self.n_guard
        for i, name in enumerate(FIELDS):
            self.send_down[i] = grid[name][g:2 * g]
            self.send_up[i] = grid[name][-2 * g:-g]

    def unpack(self, grid):
        g = self.n_guard
        for i, name in enumerate(FIELDS):
            if self.down != MPI.PROC_NULL:
                grid[name][:g] = self.recv_down[i]
            if self.up != MPI.PROC_NULL:
                grid[name][-g:] = self.recv_up[i]

    def exchange(self, grid):
        self.pack(grid)
        reqs = [
            self.comm.Isend(self.send_up, dest=self.up, tag=10),
            self.comm.Isend(self.send_down, dest=self.down, tag=11),
            self.comm.Irecv(self.recv_down, source=self.down, tag=10),
            self.comm.Irecv(self.recv_up, source=self.up, tag=11),
        ]
        MPI.Request.Waitall(reqs)
        self.unpack(grid)
        cp.cuda.get_current_stream().synchronize()


class Simulation:
    def __init__(self, comm, nz=1024, nr=512, n_guard=4):
        self.grid = {name: cp.random.random((nz, nr)) for name in FIELDS}
        self.guards = GuardCells(comm, nr, n_guard)

    def push_fields(self, dt):
        g = self.grid
        g["Bz"] += dt * (cp.roll(g["Ex"], -1, 0) - g["Ex"] - cp.roll(g["Ey"], -1, 1) + g["Ey"])
        g["Ex"] += dt * (g["Bz"] - cp.roll(g["Bz"], 1, 0))
        g["Ey"] -= dt * (g["Bz"] - cp.roll(g["Bz"], 1, 1))

    def step(self, n, dt=1e-3):
        for _ in range(n):
            self.push_fields(dt)
            self.guards.exchange(self.grid)


if __name__ == "__main__":
    sim = Simulation(MPI.COMM_WORLD)
    sim.step(200)
    print({k: float(v.max()) for k, v in sim.grid.items()})
