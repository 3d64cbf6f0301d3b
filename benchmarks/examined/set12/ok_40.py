from concurrent.futures import Future, ThreadPoolExecutor
from typing import Dict, Optional

import torch


class AsyncCheckpointer:
    def __init__(self, path_template):
        self.path_template = path_template
        self.d2h_stream = torch.cuda.Stream()
        self.cache: Dict[str, torch.Tensor] = {}
        self.executor = ThreadPoolExecutor(max_workers=1)
        self.pending: Optional[Future] = None

    def _stage(self, state):
        self.d2h_stream.wait_stream(torch.cuda.current_stream())
        staged = {}
        with torch.cuda.stream(self.d2h_stream):
            for name, value in state.items():
                if not torch.is_tensor(value) or not value.is_cuda:
                    staged[name] = value
                    continue
                if name not in self.cache:
                    self.cache[name] = torch.empty(
                        value.shape, dtype=value.dtype, pin_memory=True
                    )
                self.cache[name].copy_(value, non_blocking=True)
                value.record_stream(self.d2h_stream)
                staged[name] = self.cache[name]
            done = torch.cuda.Event()
            done.record(self.d2h_stream)
        return staged, done

    def _write(self, staged, done, path):
        done.synchronize()
        torch.save(staged, path)
        return path

    def save(self, state, step):
        self.wait()
        staged, done = self._stage(state)
        path = self.path_template.format(step=step)
        self.pending = self.executor.submit(self._write, staged, done, path)

    def before_update(self):
        torch.cuda.current_stream().wait_stream(self.d2h_stream)

    def wait(self):
        if self.pending is not None:
            self.pending.result()
            self.pending = None


class TrainEngine:
    def __init__(self, model, optimizer, checkpointer):
        self.model = model
        self.optimizer = optimizer
        self.checkpointer = checkpointer

    def step(self, batch):
        loss = self.model(batch["x"]).sub(batch["y"]).square().mean()
        loss.backward()
        self.checkpointer.before_update()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def fit(self, batches, save_every):
        for i, batch in enumerate(batches, 1):
            self.step(batch)
            if i % save_every == 0:
                state = {n: p.detach() for n, p in self.model.named_parameters()}
                self.checkpointer.save(state, i)
        self.checkpointer.wait()
