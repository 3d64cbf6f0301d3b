"""Selected-record exchange, captured once and replayed per step."""
import torch


class SelectedRecordExchange:
    def __init__(self, capacity, width, selected, device="cuda"):
        self.records = torch.zeros(capacity, width, device=device)
        self.map = torch.zeros(selected, dtype=torch.long, device=device)
        self.out = torch.zeros(selected, width, device=device)
        self.checksum = torch.zeros(selected, device=device)
        self.host_out = torch.empty(selected, width, pin_memory=True)
        self.host_checksum = torch.empty(selected, pin_memory=True)

    def exchange(self):
        torch.index_select(self.records, 0, self.map, out=self.out)
        torch.sum(self.out, dim=1, out=self.checksum)
        self.host_out.copy_(self.out, non_blocking=True)
        self.host_checksum.copy_(self.checksum, non_blocking=True)


class GraphHarness:
    def __init__(self, exchange):
        self.exchange = exchange
        self.stream = torch.cuda.Stream()
        self.graph = torch.cuda.CUDAGraph()

    def capture(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                self.exchange.exchange()
        self.stream.synchronize()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.exchange.exchange()

    def step(self, records, indices):
        self.exchange.records.copy_(records)
        self.exchange.map.copy_(indices)
        self.graph.replay()
        self.stream.synchronize()
        return (
            self.exchange.host_out.numpy().copy(),
            self.exchange.host_checksum.numpy().copy(),
        )


def test_graph_matches_eager(steps=16, capacity=4096, width=512, selected=1024):
    exchange = SelectedRecordExchange(capacity, width, selected)
    harness = GraphHarness(exchange)
    harness.capture()
    gen = torch.Generator().manual_seed(0)
    for _ in range(steps):
        records = torch.randn(capacity, width, generator=gen)
        indices = torch.randint(0, capacity, (selected,), generator=gen)
        out, checksum = harness.step(records.cuda(), indices.cuda())
        expected = records[indices]
        assert (out == expected.numpy()).all()
        assert abs(checksum - expected.sum(dim=1).numpy()).max() < 1e-2


if __name__ == "__main__":
    test_graph_matches_eager()
