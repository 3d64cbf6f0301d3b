import torch


class OutputSlot:
    def __init__(self, like):
        self.host = torch.empty(like.shape, dtype=like.dtype, pin_memory=True)
        self.done = torch.cuda.Event()


class ExecutionResult:
    """Outputs are valid once the result has been awaited."""

    def __init__(self, slot):
        self.slot = slot

    def is_ready(self):
        return self.slot.done.query()

    def await_outputs(self):
        self.slot.done.synchronize()
        return self.slot.host


class ExecutionPlan:
    """A captured task graph with deferred outputs."""

    def __init__(self, task, example, in_flight=2):
        self.static_in = example.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.no_grad():
            task(self.static_in)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.out = task(self.static_in)
        self.read_stream = torch.cuda.Stream()
        self.slots = [OutputSlot(self.out) for _ in range(in_flight)]
        self.executions = 0

    def execute(self, x):
        slot = self.slots[self.executions % len(self.slots)]
        slot.done.synchronize()
        self.executions += 1
        self.static_in.copy_(x, non_blocking=True)
        self.graph.replay()
        self.read_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.read_stream):
            slot.host.copy_(self.out, non_blocking=True)
            slot.done.record()
        return ExecutionResult(slot)


class Projection(torch.nn.Module):
    def __init__(self, dim, out):
        super().__init__()
        self.a = torch.nn.Linear(dim, dim)
        self.b = torch.nn.Linear(dim, out)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


def run(frames, writer, dim=4096, out=65536):
    plan = ExecutionPlan(Projection(dim, out).cuda(), torch.zeros(64, dim, device="cuda"))
    pending = None
    for frame in frames:
        result = plan.execute(frame.pin_memory())
        if pending is not None:
            writer.write(pending.await_outputs().numpy().tobytes())
        pending = result
    if pending is not None:
        writer.write(pending.await_outputs().numpy().tobytes())
