import queue
import threading

import torch


class TransferSlot:
    def __init__(self, numel: int, dtype: torch.dtype):
        self.tensor = torch.empty(numel, dtype=dtype, pin_memory=True)
        self.event = torch.cuda.Event()


class CPUOverlappedAdamW:
    """AdamW on host master weights; gradients leave the device during backward."""

    def __init__(self, module: torch.nn.Module, lr: float, num_slots: int = 4):
        self.params = [p for p in module.parameters() if p.requires_grad]
        self.masters = [
            torch.empty(p.shape, dtype=torch.float32, pin_memory=True).copy_(p.detach())
            for p in self.params
        ]
        for m in self.masters:
            m.grad = torch.zeros_like(m)
        self.inner = torch.optim.AdamW(self.masters, lr=lr)

        largest = max(p.numel() for p in self.params)
        self._free: queue.Queue[TransferSlot] = queue.Queue()
        for _ in range(num_slots):
            self._free.put(TransferSlot(largest, self.params[0].dtype))
        self._tasks: queue.Queue = queue.Queue()

        self._d2h_stream = torch.cuda.Stream()
        self._h2d_stream = torch.cuda.Stream()
        self._h2d_done = torch.cuda.Event()

        for index, p in enumerate(self.params):
            p.register_post_accumulate_grad_hook(self._make_hook(index))
        self._worker = threading.Thread(target=self._drain, daemon=True)
        self._worker.start()

    def _make_hook(self, index: int):
        def hook(p: torch.Tensor):
            grad = p.grad
            p.grad = None
            ready = torch.cuda.Event()
            ready.record()
            slot = self._free.get()
            dest = slot.tensor[:grad.numel()].view(grad.shape)
            with torch.cuda.stream(self._d2h_stream):
                self._d2h_stream.wait_event(ready)
                dest.copy_(grad, non_blocking=True)
                grad.record_stream(self._d2h_stream)
                slot.event.record(self._d2h_stream)
            self._tasks.put((index, slot, dest))

        return hook

    def _drain(self):
        while True:
            index, slot, dest = self._tasks.get()
            slot.event.synchronize()
            self.masters[index].grad.add_(dest)
            self._free.put(slot)
            self._tasks.task_done()

    @torch.no_grad()
    def step(self):
        self._tasks.join()
        self._h2d_done.synchronize()
        self.inner.step()

        compute = torch.cuda.current_stream()
        self._h2d_stream.wait_stream(compute)
        with torch.cuda.stream(self._h2d_stream):
            for p, m in zip(self.params, self.masters):
                p.copy_(m, non_blocking=True)
            self._h2d_done.record(self._h2d_stream)
        compute.wait_event(self._h2d_done)

        for m in self.masters:
            m.grad.zero_()


def train(model, loader, epochs=1):
    optimizer = CPUOverlappedAdamW(model, lr=1e-4)
    for _ in range(epochs):
        for x, y in loader:
            x = x.cuda(non_blocking=True)
            y = y.cuda(non_blocking=True)
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
    torch.cuda.synchronize()


if __name__ == "__main__":
    net = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256)).cuda()
    samples = [(torch.randn(64, 256), torch.randn(64, 256)) for _ in range(8)]
    train(net, torch.utils.data.DataLoader(samples, batch_size=None, pin_memory=True))
