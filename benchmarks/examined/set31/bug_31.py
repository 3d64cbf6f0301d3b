"""Background checkpointing with staging in page locked memory."""
import threading

import torch


class AsyncTake:
    def __init__(self, model):
        self.model = model
        self.stream = torch.cuda.Stream()
        self.host = {
            k: torch.empty(v.shape, dtype=v.dtype, pin_memory=True)
            for k, v in model.state_dict().items()
        }
        self.thread = None

    def wait(self):
        if self.thread is not None:
            self.thread.join()
            self.thread = None

    def start(self, path):
        self.wait()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for k, v in self.model.state_dict().items():
                self.host[k].copy_(v, non_blocking=True)
            staged = self.stream.record_event()
        self.thread = threading.Thread(target=self._write, args=(path, staged))
        self.thread.start()

    def _write(self, path, staged):
        staged.synchronize()
        torch.save(self.host, path)


class Trainer:
    def __init__(self, width=4096, layers=12):
        blocks = [torch.nn.Linear(width, width) for _ in range(layers)]
        self.model = torch.nn.Sequential(*blocks).cuda()
        self.opt = torch.optim.AdamW(self.model.parameters(), fused=True)
        self.take = AsyncTake(self.model)
        self.width = width

    def train(self, steps, every):
        for i in range(1, steps + 1):
            x = torch.randn(8, self.width, device="cuda")
            self.model(x).square().mean().backward()
            self.opt.step()
            self.opt.zero_grad(set_to_none=True)
            if i % every == 0:
                self.take.start(f"ckpt_{i}.pt")
        self.take.wait()


if __name__ == "__main__":
    Trainer().train(200, 20)
