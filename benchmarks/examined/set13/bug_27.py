import os
import queue
import threading

import torch


class AsyncRequest:
    def __init__(self, path, tensors, iteration):
        self.path = path
        self.tensors = tensors
        self.iteration = iteration
        self.done = threading.Event()
        self.error = None


class PersistentAsyncCaller:
    def __init__(self):
        self.queue = queue.Queue()
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def _loop(self):
        while True:
            req = self.queue.get()
            if req is None:
                return
            try:
                tmp = f"{req.path}.tmp"
                torch.save({"iteration": req.iteration, "state": req.tensors}, tmp)
                os.replace(tmp, req.path)
            except Exception as e:
                req.error = e
            finally:
                req.done.set()

    def schedule(self, req):
        self.queue.put(req)


class FileSystemWriterAsync:
    def __init__(self):
        self._host_tensor_cache = {}
        self.d2h_stream = torch.cuda.Stream()

    def preload_tensors(self, state_dict):
        staged = {}
        self.d2h_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.d2h_stream):
            for name, tensor in state_dict.items():
                host = self._host_tensor_cache.get(name)
                if host is None or host.shape != tensor.shape or host.dtype != tensor.dtype:
                    host = torch.empty_like(tensor, device="cpu", pin_memory=True)
                    self._host_tensor_cache[name] = host
                host.copy_(tensor.detach(), non_blocking=True)
                staged[name] = host
        self.d2h_stream.synchronize()
        return staged


class AsyncCallsQueue:
    def __init__(self):
        self.caller = PersistentAsyncCaller()
        self.writer = FileSystemWriterAsync()
        self.active = []

    def schedule_async_request(self, state_dict, path, iteration):
        staged = self.writer.preload_tensors(state_dict)
        req = AsyncRequest(path, staged, iteration)
        self.active.append(req)
        self.caller.schedule(req)

    def maybe_finalize_async_calls(self, blocking=False):
        finished = []
        while self.active:
            if not blocking and not self.active[0].done.is_set():
                break
            req = self.active.pop(0)
            req.done.wait()
            if req.error is not None:
                raise req.error
            finished.append(req.iteration)
        return finished


def train(model, optimizer, loader, save_dir, save_interval):
    calls = AsyncCallsQueue()
    for it, batch in enumerate(loader, 1):
        optimizer.zero_grad(set_to_none=True)
        model(batch.cuda()).mean().backward()
        optimizer.step()
        calls.maybe_finalize_async_calls()
        if it % save_interval == 0:
            calls.schedule_async_request(model.state_dict(), f"{save_dir}/iter_{it}.pt", it)
    calls.maybe_finalize_async_calls(blocking=True)
