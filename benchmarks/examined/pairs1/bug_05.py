"""Zero-overhead scheduling: results of step N-1 are handled while step N runs."""
import torch


class Request:
    def __init__(self, rid, budget):
        self.rid, self.budget, self.row = rid, budget, None
        self.output_ids = []

    @property
    def finished(self):
        return len(self.output_ids) >= self.budget


class RowPool:
    def __init__(self, rows, width):
        self.req_to_token = torch.zeros(rows, width, dtype=torch.int64, device="cuda")
        self._free = list(range(rows))

    def take(self):
        return self._free.pop()

    def give(self, row):
        self._free.append(row)


class Scheduler:
    def __init__(self, rows=4, width=4096):
        self.pool = RowPool(rows, width)
        self.kv = torch.randn(8192, 512, device="cuda")
        self.head = torch.randn(512, 32000, device="cuda")
        self.forward_stream = torch.cuda.Stream()
        self.waiting = [Request(i, 3 + i % 5) for i in range(64)]
        self.running = []

    def get_next_batch(self):
        self.running = [r for r in self.running if r.row is not None]
        while self.waiting and len(self.running) < 3:
            req = self.waiting.pop()
            req.row = self.pool.take()
            self.pool.req_to_token[req.row] = torch.randint(0, 8192, (4096,), device="cuda")
            self.running.append(req)
        return list(self.running)

    def run_batch(self, batch):
        self.forward_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.forward_stream):
            outs = [(self.kv[self.pool.req_to_token[r.row]].sum(0) @ self.head).argmax() for r in batch]
            host = torch.stack(outs).to("cpu", non_blocking=True)
            copy_done = torch.cuda.Event()
            copy_done.record()
        return batch, host, copy_done

    def process_batch_result(self, result):
        batch, host, copy_done = result
        copy_done.synchronize()
        for req, tok in zip(batch, host.tolist()):
            if req.row is None:
                continue
            req.output_ids.append(tok)
            if req.finished:
                self.pool.give(req.row)
                req.row = None

    def event_loop_overlap(self):
        last = None
        while True:
            batch = self.get_next_batch()
            result = self.run_batch(batch) if batch else None
            if last is not None:
                self.process_batch_result(last)
            if result is None:
                return
            last = result


if __name__ == "__main__":
    Scheduler().event_loop_overlap()
