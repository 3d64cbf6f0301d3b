import os
import queue
import threading

import torch


class Writer:
    """Writes snapshots to disk from a thread of its own."""

    def __init__(self, folder, keep=3):
        self.folder = folder
        self.keep = keep
        self.jobs = queue.Queue()
        self.written = []
        os.makedirs(folder, exist_ok=True)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def submit(self, snapshot):
        self.jobs.put(snapshot)

    def drain(self):
        self.jobs.join()

    def close(self):
        self.drain()
        self.jobs.put(None)
        self.thread.join()

    def _run(self):
        while True:
            snapshot = self.jobs.get()
            try:
                if snapshot is None:
                    return
                self._write(snapshot)
            finally:
                self.jobs.task_done()

    def _write(self, snapshot):
        path = os.path.join(self.folder, f"step_{snapshot.step:07d}.pt")
        torch.save({"step": snapshot.step, "state": snapshot.tensors}, path + ".part")
        os.replace(path + ".part", path)
        self.written.append(path)
        while len(self.written) > self.keep:
            os.remove(self.written.pop(0))
