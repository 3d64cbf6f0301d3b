import torch


class PipelinedBatch:

    def __init__(self, tensors):
        self.tensors = tensors

    def empty_like(self, device):
        return PipelinedBatch({
            k: torch.empty(v.shape, dtype=v.dtype, device=device)
            for k, v in self.tensors.items()
        })

    def copy_(self, src, non_blocking=False):
        for k, v in self.tensors.items():
            v.copy_(src.tensors[k], non_blocking=non_blocking)
        return self

    def record_stream(self, stream):
        for v in self.tensors.values():
            v.record_stream(stream)


class TrainPipelineBase:

    def __init__(self, model, optimizer, device, enable_inplace_copy_batch=True):
        self._model = model
        self._optimizer = optimizer
        self._device = device
        self._enable_inplace_copy_batch = enable_inplace_copy_batch
        self._memcpy_stream = torch.cuda.Stream(device, priority=-1)
        self._cur_batch = None
        self._connected = False

    def inplace_copy_batch_to_gpu(self, batch):
        if batch is None:
            return None
        gpu_batch = batch.empty_like(self._device)
        current = torch.cuda.current_stream(self._device)
        self._memcpy_stream.wait_stream(current)
        with torch.cuda.stream(self._memcpy_stream):
            gpu_batch.copy_(batch, non_blocking=True)
        return gpu_batch

    def _wait_for_batch(self, batch):
        current = torch.cuda.current_stream(self._device)
        current.wait_stream(self._memcpy_stream)
        if not self._enable_inplace_copy_batch:
            batch.record_stream(current)
        return batch

    def _connect(self, it):
        self._cur_batch = self.inplace_copy_batch_to_gpu(next(it, None))
        self._connected = True

    def progress(self, it):
        if not self._connected:
            self._connect(it)
        cur_batch = self._cur_batch
        if cur_batch is None:
            raise StopIteration
        self._wait_for_batch(cur_batch)
        self._cur_batch = self.inplace_copy_batch_to_gpu(next(it, None))

        self._optimizer.zero_grad()
        loss, output = self._model(cur_batch)
        loss.backward()
        self._optimizer.step()
        return output
