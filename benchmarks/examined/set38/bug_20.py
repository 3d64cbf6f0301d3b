"""Captured selected-record exchange with its result landing in page-locked memory."""
import numpy as np
import torch


class RecordExchange:
    def __init__(self, records, width, select):
        self.records = torch.empty(records, width, device="cuda")
        self.maps = torch.zeros(select, dtype=torch.long, device="cuda")
        self.workspace = torch.empty(select, width, device="cuda")
        self.out = torch.empty(select, width, pin_memory=True)

    def exchange(self):
        torch.index_select(self.records, 0, self.maps, out=self.workspace)
        for _ in range(8):
            self.workspace.mul_(1.01).add_(0.5)
        self.out.copy_(self.workspace, non_blocking=True)

    def addresses(self):
        return (self.records.data_ptr(), self.maps.data_ptr(), self.workspace.data_ptr())


class CapturedExchange:
    def __init__(self, exchange, warmup=3):
        self.inner = exchange
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(warmup):
                self.inner.exchange()
        self.stream.synchronize()
        before = self.inner.addresses()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.inner.exchange()
        assert before == self.inner.addresses()

    def load(self, records, maps):
        self.inner.records.copy_(records)
        self.inner.maps.copy_(maps)

    def replay(self):
        self.graph.replay()

    def result(self):
        self.stream.synchronize()
        return self.inner.out.numpy()


def expected(records, maps):
    x = records[maps].cpu().numpy().astype(np.float64)
    for _ in range(8):
        x = x * 1.01 + 0.5
    return x


class Checker:
    def __init__(self, tolerance):
        self.tolerance = tolerance
        self.failures = 0
        self.rounds = 0

    def compare(self, got, want):
        self.rounds += 1
        if np.abs(got - want).max() > self.tolerance:
            self.failures += 1


def main():
    torch.manual_seed(0)
    records, width, select = 65536, 512, 16384
    runner = CapturedExchange(RecordExchange(records, width, select))
    checker = Checker(1e-3)
    for round_ in range(10):
        data = torch.randn(records, width, device="cuda")
        maps = torch.randint(0, records, (select,), device="cuda")
        want = expected(data, maps)
        runner.load(data, maps)
        runner.replay()
        got = np.array(runner.result(), copy=True)
        checker.compare(got, want)
    print(checker.rounds, checker.failures)


if __name__ == "__main__":
    main()
