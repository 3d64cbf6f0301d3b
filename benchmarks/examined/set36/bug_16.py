"""Colocated actor and rollout engine: the actor is saved in the background, then gives up its memory."""
import threading

import torch
import torch.nn as nn


class CheckpointWriter:
    def __init__(self, device):
        self.stream = torch.cuda.Stream(device)
        self.staged = {}
        self.thread = None

    def schedule(self, module, path):
        """Stages the parameters to page-locked memory and writes them from a thread."""
        self.join()
        for name, p in module.named_parameters():
            if name not in self.staged:
                self.staged[name] = torch.empty(p.shape, dtype=p.dtype, pin_memory=True)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for name, p in module.named_parameters():
                self.staged[name].copy_(p.detach(), non_blocking=True)
            done = self.stream.record_event()
        self.thread = threading.Thread(target=self._write, args=(self.staged, done, path))
        self.thread.start()

    @staticmethod
    def _write(staged, done, path):
        done.synchronize()
        torch.save(staged, path)

    def join(self):
        if self.thread is not None:
            self.thread.join()
            self.thread = None


class Actor:
    def __init__(self, module, device):
        self.module = module.to(device)
        self.sizes = {n: p.untyped_storage().size() for n, p in self.module.named_parameters()}
        self.writer = CheckpointWriter(device)

    def save(self, path):
        self.writer.schedule(self.module, path)

    def release_memory(self):
        for _, p in self.module.named_parameters():
            p.untyped_storage().resize_(0)

    @torch.no_grad()
    def onload(self, weights):
        for name, p in self.module.named_parameters():
            p.untyped_storage().resize_(self.sizes[name])
            p.copy_(weights[name])


class Rollout:
    def __init__(self, blocks, block_shape, device):
        self.blocks, self.block_shape, self.device = blocks, block_shape, device
        self.cache = None

    def wake_up(self):
        self.cache = [torch.zeros(self.block_shape, device=self.device)
                      for _ in range(self.blocks)]

    def sleep(self):
        self.cache = None


def end_of_step(actor, rollout, path):
    actor.save(path)
    actor.release_memory()
    rollout.wake_up()
    return rollout.cache


if __name__ == "__main__":
    dev = torch.device("cuda:0")
    act = Actor(nn.Sequential(*[nn.Linear(4096, 4096) for _ in range(24)]), dev)
    gen = Rollout(24, (4096, 4096), dev)
    end_of_step(act, gen, "/tmp/actor.pt")
    act.writer.join()
