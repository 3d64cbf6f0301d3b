"""Expert-parallel buffer: token dispatch and combine on a communication stream."""
import torch


class EventOverlap:
    def __init__(self, event):
        self.event = event

    def current_stream_wait(self):
        torch.cuda.current_stream().wait_event(self.event)


class Buffer:
    def __init__(self, num_experts, capacity, hidden, device="cuda"):
        self.num_experts, self.capacity = num_experts, capacity
        self.device = torch.device(device)
        self.comm_stream = torch.cuda.Stream(self.device)
        self.window = torch.zeros(num_experts * capacity, hidden, device=self.device)
        self.slots = torch.zeros(num_experts * capacity, dtype=torch.long, device=self.device)
        self.released = torch.cuda.Event()
        self.released.record()

    def _pack(self, x, topk_idx):
        order = torch.argsort(topk_idx)
        rows = order[: self.num_experts * self.capacity]
        scale = x.abs().amax(dim=-1, keepdim=True).clamp_(min=1e-4)
        return (x / scale)[rows], scale[rows], rows

    def dispatch(self, x, topk_idx):
        compute = torch.cuda.current_stream(self.device)
        packed, scales, rows = self._pack(x, topk_idx)
        self.comm_stream.wait_stream(compute)
        with torch.cuda.stream(self.comm_stream):
            self.window[: packed.shape[0]].copy_(packed, non_blocking=True)
            self.window[: packed.shape[0]].mul_(scales)
            self.slots[: rows.shape[0]].copy_(rows, non_blocking=True)
            event = torch.cuda.Event()
            event.record(self.comm_stream)
        return packed.shape[0], EventOverlap(event)

    def received(self, count):
        return self.window[:count], self.slots[:count]


class MoELayer(torch.nn.Module):
    def __init__(self, hidden, num_experts, capacity):
        super().__init__()
        self.gate = torch.nn.Linear(hidden, num_experts, bias=False)
        self.expert = torch.nn.Linear(hidden, hidden)
        self.shared = torch.nn.Sequential(
            torch.nn.Linear(hidden, 4 * hidden), torch.nn.SiLU(),
            torch.nn.Linear(4 * hidden, hidden))
        self.buffer = Buffer(num_experts, capacity, hidden)

    def forward(self, x):
        topk_idx = self.gate(x).argmax(dim=-1)
        count, overlap = self.buffer.dispatch(x, topk_idx)
        shared = self.shared(x)
        overlap.current_stream_wait()
        tokens, slots = self.buffer.received(count)
        return shared.index_add(0, slots, self.expert(tokens))


def main():
    torch.manual_seed(0)
    layers = torch.nn.ModuleList(MoELayer(1024, 8, 1024) for _ in range(4)).cuda()
    x = torch.randn(8192, 1024, device="cuda")
    with torch.no_grad():
        for _ in range(10):
            for layer in layers:
                x = torch.nn.functional.normalize(layer(x), dim=-1)
    print(x.sum().item())


if __name__ == "__main__":
    main()
