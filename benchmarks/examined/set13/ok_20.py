import os
import queue
import threading

import torch


class _CUDAWorker(threading.Thread):
    def __init__(self, out_dir, device, max_queue=4):
        super().__init__(daemon=True)
        self.device = device
        self.out_dir = out_dir
        self.queue = queue.Queue(maxsize=max_queue)
        self.errors = []

    def run(self):
        torch.cuda.set_device(self.device)
        while True:
            item = self.queue.get()
            if item is None:
                break
            name, tensors, on_done = item
            try:
                torch.cuda.synchronize()
                path = os.path.join(self.out_dir, name)
                torch.save(tensors, path + ".tmp")
                os.replace(path + ".tmp", path)
            except OSError as e:
                self.errors.append(e)
            finally:
                on_done()

    def put(self, name, tensors, on_done):
        self.queue.put((name, tensors, on_done))

    def finalize(self):
        self.queue.put(None)
        self.join()
        if self.errors:
            raise self.errors[0]


class ActivationSnapshot:
    """Training extension: dumps the activations of chosen layers every few iterations."""

    def __init__(self, model, layers, out_dir, interval, local_rank):
        self.device = torch.device("cuda", local_rank)
        self.interval = interval
        self.local_rank = local_rank
        self.iteration = 0
        self.current = {}
        self.worker = _CUDAWorker(out_dir, self.device)
        self.slots = threading.Semaphore(4)
        modules = dict(model.named_modules())
        for name in layers:
            modules[name].register_forward_hook(self._make_hook(name))

    def initialize(self):
        self.worker.start()

    def _make_hook(self, name):
        def hook(module, inputs, output):
            if self.iteration % self.interval:
                return
            host = torch.empty(output.shape, dtype=output.dtype, pin_memory=True)
            host.copy_(output.detach(), non_blocking=True)
            self.current[name] = host
        return hook

    def __call__(self):
        if self.current:
            self.slots.acquire()
            name = f"act_{self.local_rank}_{self.iteration}.pt"
            self.worker.put(name, self.current, self.slots.release)
            self.current = {}
        self.iteration += 1

    def finalize(self):
        self.worker.finalize()


def main(model, criterion, loader, optimizer, layers, out_dir):
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = model.cuda()
    snapshot = ActivationSnapshot(model, layers, out_dir, 100, local_rank)
    snapshot.initialize()
    for x, t in loader:
        optimizer.zero_grad(set_to_none=True)
        criterion(model(x.cuda()), t.cuda()).backward()
        optimizer.step()
        snapshot()
    snapshot.finalize()
