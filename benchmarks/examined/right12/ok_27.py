import torch
from torch import nn


class Lane:
    def __init__(self, model, batch, features, device):
        self.stream = torch.cuda.Stream(device)
        self.host_in = torch.zeros(batch, features, pin_memory=True)
        self.stream.wait_stream(torch.cuda.current_stream(device))
        with torch.no_grad(), torch.cuda.stream(self.stream):
            self.static_in = torch.zeros(batch, features, device=device)
            for _ in range(3):
                warm = model(self.static_in)
            self.host_out = torch.empty(warm.shape, pin_memory=True)
        self.stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=self.stream):
            self.static_in.copy_(self.host_in, non_blocking=True)
            self.static_out = model(self.static_in)
            self.host_out.copy_(self.static_out, non_blocking=True)
        self.done = torch.cuda.Event()
        self.ticket = None

    def launch(self, rows, ticket):
        self.host_in[: rows.shape[0]].copy_(rows)
        self.ticket = (ticket, rows.shape[0])
        with torch.cuda.stream(self.stream):
            self.graph.replay()
            self.done.record()

    def finish(self):
        self.done.synchronize()
        ticket, count = self.ticket
        self.ticket = None
        return ticket, self.host_out[:count].clone()


class PingPongServer:
    """Two captured copies of one model take turns, hiding host work behind replays."""

    def __init__(self, model, batch, features, device="cuda"):
        self.device = torch.device(device, torch.cuda.current_device())
        self.model = model.to(self.device).eval()
        self.batch = batch
        self.lanes = [Lane(self.model, batch, features, self.device) for _ in range(2)]
        self.next_lane = 0
        self.results = {}
        self.issued = 0

    def submit(self, rows):
        if rows.is_cuda or rows.shape[0] > self.batch:
            raise ValueError("expected at most one batch of host rows")
        lane = self.lanes[self.next_lane]
        if lane.ticket is not None:
            ticket, value = lane.finish()
            self.results[ticket] = value
        ticket = self.issued
        lane.launch(rows, ticket)
        self.issued += 1
        self.next_lane = 1 - self.next_lane
        return ticket

    def result(self, ticket):
        for lane in self.lanes:
            if lane.ticket is not None and lane.ticket[0] == ticket:
                return lane.finish()[1]
        return self.results.pop(ticket)


def main():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(32, 256), nn.GELU(), nn.Linear(256, 8))
    server = PingPongServer(net, 64, 32)
    inputs = [torch.randn(1 + 9 * i % 64, 32) for i in range(12)]
    tickets = [server.submit(rows) for rows in inputs]
    worst = 0.0
    for rows, ticket in reversed(list(zip(inputs, tickets))):
        with torch.no_grad():
            want = net(rows.cuda()).cpu()
        worst = max(worst, (server.result(ticket) - want).abs().max().item())
    late = server.result(server.submit(inputs[0]))
    print(worst, late.shape)


if __name__ == "__main__":
    main()
