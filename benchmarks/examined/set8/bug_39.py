from collections import deque
from concurrent.futures import ThreadPoolExecutor

import torch


class AsyncInplaceCopyMixin:
    """Dispatches the in-place H2D copy of a batch from a background thread."""

    def _init_async_copy(self, device):
        self._device = device
        self._memcpy_stream = torch.cuda.Stream(device)
        self._copy_executor = ThreadPoolExecutor(max_workers=1)

    def _inplace_copy_batch_to_gpu(self, batch):
        torch.cuda.set_device(self._device)
        main_stream = torch.cuda.current_stream(self._device)
        dst = {k: torch.empty_like(v, device=self._device) for k, v in batch.items()}
        self._memcpy_stream.wait_stream(main_stream)
        with torch.cuda.stream(self._memcpy_stream):
            for k, v in batch.items():
                dst[k].copy_(v, non_blocking=True)
            event = torch.cuda.Event()
            event.record(self._memcpy_stream)
        return dst, event

    def inplace_copy_batch_to_gpu(self, batch):
        return self._copy_executor.submit(self._inplace_copy_batch_to_gpu, batch)


class TrainPipelineBase(AsyncInplaceCopyMixin):

    def __init__(self, model, optimizer, device):
        self._model = model
        self._optimizer = optimizer
        self._init_async_copy(device)
        self.train_stream = torch.cuda.Stream(device)
        self.batches = deque()

    def _next_batch(self, it):
        batch = next(it, None)
        if batch is not None:
            self.batches.append(self.inplace_copy_batch_to_gpu(batch))

    def _wait_for_batch(self):
        batch, event = self.batches.popleft().result()
        torch.cuda.current_stream(self._device).wait_event(event)
        return batch

    def progress(self, it):
        if not self.batches:
            self._next_batch(it)
        if not self.batches:
            raise StopIteration
        batch = self._wait_for_batch()
        self._next_batch(it)
        loss, output = self._model(batch)
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        return output

    def run(self, loader):
        it = iter(loader)
        means = []
        self.train_stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self.train_stream):
            while True:
                try:
                    means.append(self.progress(it).detach().mean())
                except StopIteration:
                    break
            return torch.stack(means).tolist()
