"""Checkpoint writer: tensors are snapshotted into reusable host slots, a process writes them."""
import io
import os

import torch
import torch.multiprocessing as mp


class HostSlots:
    """Shared, page-locked copies of every tensor that is saved; allocated at the first save."""

    def __init__(self):
        self.slots = {}

    def get(self, name, like):
        slot = self.slots.get(name)
        if slot is None or slot.shape != like.shape:
            slot = torch.empty(like.shape, dtype=like.dtype).share_memory_()
            rc = torch.cuda.cudart().cudaHostRegister(
                slot.data_ptr(), slot.numel() * slot.element_size(), 0)
            if int(rc) != 0:
                raise RuntimeError(f"cudaHostRegister failed for {name}: {rc}")
            self.slots[name] = slot
        return slot


class Snapshotter:
    def __init__(self, flush_every=8):
        self.slots = HostSlots()
        self.flush_every = flush_every

    @torch.no_grad()
    def stage(self, state):
        staged = {}
        pending = 0
        for name, tensor in state.items():
            slot = self.slots.get(name, tensor)
            slot.copy_(tensor, non_blocking=True)
            staged[name] = slot
            pending += int(tensor.device.type == "cuda")
            if pending == self.flush_every:
                torch.cuda.synchronize()
                pending = 0
        return staged


def _writer(requests, replies):
    while True:
        job = requests.get()
        if job is None:
            return
        path, staged = job
        buffer = io.BytesIO()
        torch.save(staged, buffer)
        tmp = path + ".tmp"
        with open(tmp, "wb") as handle:
            handle.write(buffer.getbuffer())
        os.replace(tmp, path)
        replies.put(path)


class AsyncCheckpointer:
    def __init__(self):
        ctx = mp.get_context("spawn")
        self.requests = ctx.Queue()
        self.replies = ctx.Queue()
        self.process = ctx.Process(target=_writer, args=(self.requests, self.replies), daemon=True)
        self.process.start()
        self.snapshotter = Snapshotter()
        self.outstanding = 0

    def save(self, model, path):
        self.wait()
        staged = self.snapshotter.stage(dict(model.state_dict()))
        self.requests.put((path, staged))
        self.outstanding += 1

    def wait(self):
        while self.outstanding:
            self.replies.get()
            self.outstanding -= 1

    def close(self):
        self.wait()
        self.requests.put(None)
        self.process.join()


def train(model, loader, loss_fn, directory, every=100):
    model.cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    saver = AsyncCheckpointer()
    for step, (x, y) in enumerate(loader, 1):
        loss = loss_fn(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % every == 0:
            saver.save(model, os.path.join(directory, f"step_{step}.pt"))
    saver.close()
