import os
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn


class PinnedPool:
    def __init__(self):
        self.free = defaultdict(list)

    def get(self, shape, dtype):
        key = (tuple(shape), dtype)
        if self.free[key]:
            return self.free[key].pop()
        return torch.empty(shape, dtype=dtype, pin_memory=True)

    def put(self, tensor):
        self.free[(tuple(tensor.shape), tensor.dtype)].append(tensor)


class TemporalAsyncCaller:
    """Runs the writer of one checkpoint in the background."""

    def __init__(self):
        self.executor = ThreadPoolExecutor(max_workers=2)
        self.future = None

    def schedule(self, fn, *args):
        torch.cuda.synchronize()
        self.future = self.executor.submit(fn, *args)

    def is_done(self):
        return self.future is None or self.future.done()

    def close(self):
        if self.future is not None:
            self.future.result()
        self.executor.shutdown()


def write_bucket(path, bucket):
    tmp = path + ".tmp"
    with open(tmp, "wb") as f:
        for name, tensor in bucket:
            f.write(name.encode() + b"\0")
            f.write(tensor.numpy().tobytes())
    os.replace(tmp, path)


class AsyncSaver:
    def __init__(self, directory):
        self.directory = directory
        self.pool = PinnedPool()
        self.caller = TemporalAsyncCaller()

    def stage(self, state_dict):
        bucket = []
        for name, tensor in state_dict.items():
            host = self.pool.get(tensor.shape, tensor.dtype)
            host.copy_(tensor.detach(), non_blocking=True)
            bucket.append((name, host))
        return bucket

    def save(self, step, state_dict):
        bucket = self.stage(state_dict)
        path = os.path.join(self.directory, f"step_{step}.bin")
        self.caller.schedule(write_bucket, path, bucket)
        self.release_all(bucket)

    def release_all(self, bucket):
        for _, host in bucket:
            self.pool.put(host)


def train(directory, steps=200, interval=10):
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    saver = AsyncSaver(directory)
    for step in range(steps):
        loss = model(torch.randn(64, 2048, device="cuda")).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        if step % interval == 0:
            saver.save(step, model.state_dict())
    saver.caller.close()


if __name__ == "__main__":
    os.makedirs("/tmp/ckpt", exist_ok=True)
    train("/tmp/ckpt")
