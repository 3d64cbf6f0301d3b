"""Background checkpointing with staging in page locked memory."""
import threading

import torch


class AsyncTake:
    def __init__(self, model, optimizer):
        self.model = model
        self.stream = torch.cuda.Stream()
        self.host = {
            k: torch.empty(v.shape, dtype=v.dtype, pin_memory=True)
            for k, v in model.state_dict().items()
        }
        self.thread = None
        self.staged = None
        optimizer.register_step_pre_hook(self._before_step)

    def _before_step(self, optimizer, args, kwargs):
        if self.staged is not None:
            torch.cuda.current_stream().wait_event(self.staged)
            self.staged = None

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
            self.staged = self.stream.record_event()
        self.thread = threading.Thread(target=self._write, args=(path, self.staged))
        self.thread.start()

    def _write(self, path, staged):
        staged.synchronize()
        torch.save(self.host, path)


def main(width=4096, layers=12):
    blocks = [torch.nn.Linear(width, width) for _ in range(layers)]
    model = torch.nn.Sequential(*blocks).cuda()
    opt = torch.optim.AdamW(model.parameters(), fused=True)
    take = AsyncTake(model, opt)
    for i in range(1, 201):
        model(torch.randn(8, width, device="cuda")).square().mean().backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if i % 20 == 0:
            take.start(f"ckpt_{i}.pt")
    take.wait()


if __name__ == "__main__":
    main()
