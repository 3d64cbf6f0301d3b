"""Checkpoints written by a background thread while training goes on."""
import queue
import threading

import torch


class SnapshotWriter:
    def __init__(self, save=torch.save, device="cuda"):
        self.save = save
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.jobs = queue.Queue(maxsize=1)
        self.error = None
        self.thread = threading.Thread(target=self._write_loop)
        self.thread.start()

    def _write_loop(self):
        while True:
            job = self.jobs.get()
            if job is None:
                return
            path, host, event = job
            try:
                event.synchronize()
                self.save({k: v.clone() for k, v in host.items()}, path)
            except Exception as error:
                self.error = error

    def submit(self, path, state):
        if self.error is not None:
            raise RuntimeError("an earlier snapshot failed") from self.error
        host, clones = {}, []
        for name, value in state.items():
            if value.is_cuda:
                clones.append((name, value.detach().clone()))
            else:
                host[name] = value.detach().clone()
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            for name, value in clones:
                target = torch.empty(
                    value.shape, dtype=value.dtype, pin_memory=True
                )
                target.copy_(value, non_blocking=True)
                value.record_stream(self.stream)
                host[name] = target
            event = torch.cuda.Event(blocking=True)
            event.record(self.stream)
        self.jobs.put((path, host, event))

    def close(self):
        self.jobs.put(None)
        self.thread.join()
        if self.error is not None:
            raise RuntimeError("a snapshot failed") from self.error


def train(model, optimizer, batches, loss_fn, every=100):
    writer = SnapshotWriter()
    try:
        for step, (x, y) in enumerate(batches):
            optimizer.zero_grad(set_to_none=True)
            loss_fn(model(x), y).backward()
            optimizer.step()
            if step % every == 0:
                writer.submit(f"step_{step}.pt", model.state_dict())
    finally:
        writer.close()
