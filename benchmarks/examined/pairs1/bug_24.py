"""Radix cache for a state-space model: states are snapshotted at chunk ends."""
import torch


class Result:
    def __init__(self, step, chunked, host, copy_done):
        self.step, self.chunked, self.host, self.copy_done = step, chunked, host, copy_done


class SSMScheduler:
    def __init__(self, dim=2048):
        self.temporal = [torch.zeros(32, dim, device="cuda") for _ in range(2)]
        self.w = torch.randn(dim, dim, device="cuda") / 45
        self.forward_stream = torch.cuda.Stream()
        self.tree = {}
        self.chunked_req = None
        torch.cuda.synchronize()

    def cache_unfinished(self, step):
        self.tree[step] = self.temporal[step % 2].clone()

    def get_next_batch(self, step):
        if self.chunked_req is not None:
            self.cache_unfinished(self.chunked_req)
            self.chunked_req = None
        return step, step % 3 != 2

    def run_batch(self, batch):
        step, chunked = batch
        self.forward_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.forward_stream):
            h = self.temporal[1 - step % 2]
            for _ in range(8):
                h = torch.tanh(h @ self.w + 0.1)
            self.temporal[step % 2].copy_(h)
            host = h.mean(1).to("cpu", non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        if chunked:
            self.chunked_req = step
        return Result(step, chunked, host, done)

    def process_batch_result(self, result):
        result.copy_done.synchronize()
        if not result.chunked:
            self.cache_unfinished(result.step)
        return result.host.sum().item()

    def event_loop_overlap(self, steps):
        last, log = None, []
        for step in range(steps):
            batch = self.get_next_batch(step)
            result = self.run_batch(batch)
            if last is not None:
                log.append(self.process_batch_result(last))
            last = result
        log.append(self.process_batch_result(last))
        return log


if __name__ == "__main__":
    print(SSMScheduler().event_loop_overlap(60))
