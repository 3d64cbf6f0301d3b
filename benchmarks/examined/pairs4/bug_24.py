"""Physics workers publish states in registered shared memory for a learner."""
import multiprocessing as mp
from multiprocessing import shared_memory

import numpy as np
import torch
from torch import nn


def worker(name, index, shape, total, pipe):
    shm = shared_memory.SharedMemory(name=name)
    states = np.ndarray((total, *shape), np.float32, buffer=shm.buf)
    mine = states[index]
    rng = np.random.default_rng(index)
    mine[:] = rng.standard_normal(shape)
    pipe.send("ready")
    while pipe.recv() == "step":
        mine[:] = 0.9 * mine + 0.1 * rng.standard_normal(shape)
        pipe.send("ready")
    del states, mine
    shm.close()


class WorkerPool:
    def __init__(self, count, shape):
        size = 4 * count * int(np.prod(shape))
        self.shm = shared_memory.SharedMemory(create=True, size=size)
        self.states = torch.frombuffer(self.shm.buf, dtype=torch.float32, count=size // 4).view(count, *shape)
        torch.cuda.check_error(int(torch.cuda.cudart().cudaHostRegister(self.states.data_ptr(), size, 0)))
        ctx = mp.get_context("spawn")
        self.pipes, self.procs = [], []
        for i in range(count):
            ours, theirs = ctx.Pipe()
            p = ctx.Process(target=worker, args=(self.shm.name, i, shape, count, theirs))
            p.start()
            self.pipes.append(ours)
            self.procs.append(p)

    def observe(self, out):
        for pipe in self.pipes:
            pipe.recv()
        out.copy_(self.states, non_blocking=True)
        for pipe in self.pipes:
            pipe.send("step")
        return out

    def close(self):
        for pipe, p in zip(self.pipes, self.procs):
            pipe.recv()
            pipe.send("stop")
            p.join()


def main(steps=500):
    pool = WorkerPool(8, (4096, 32))
    obs = torch.empty(8, 4096, 32, device="cuda")
    value = nn.Sequential(nn.Linear(32, 256), nn.Tanh(), nn.Linear(256, 1)).cuda()
    opt = torch.optim.Adam(value.parameters(), 3e-4)
    for _ in range(steps):
        pool.observe(obs)
        loss = (value(obs).squeeze(-1) - obs.norm(dim=-1)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    pool.close()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
