"""Cross-thread hand-off of re-arranged expert weights."""
import threading

import torch


class CpuGpuEvent:
    """CUDA event whose record() may happen on another thread than wait()."""

    def __init__(self):
        self._event = torch.cuda.Event()
        self._recorded = threading.Event()

    def record(self, stream):
        self._event.record(stream)
        self._recorded.set()

    def wait(self, stream):
        self._recorded.wait()
        self._recorded.clear()
        stream.wait_event(self._event)


class AsyncRearranger:
    def __init__(self, layers, device):
        self.layers = layers
        self.device = device
        self.stream = torch.cuda.Stream(device=device)
        with torch.cuda.stream(self.stream):
            self.workspace = torch.empty_like(layers[0].expert_weight)
        self.workspace_ready = CpuGpuEvent()
        self.workspace_free = CpuGpuEvent()
        self.start = CpuGpuEvent()
        self.plan = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def begin(self, plan):
        self.plan = plan
        self.start.record(torch.cuda.current_stream())

    def _run(self):
        torch.cuda.set_device(self.device)
        while True:
            self.start.wait(self.stream)
            plan = self.plan
            if plan is None:
                return
            for i, layer in enumerate(self.layers):
                with torch.cuda.stream(self.stream):
                    torch.index_select(
                        layer.expert_weight, 0, plan[i], out=self.workspace
                    )
                self.workspace_ready.record(self.stream)
                self.workspace_free.wait(self.stream)

    def move_to_weights(self, layer):
        main = torch.cuda.current_stream()
        self.workspace_ready.wait(main)
        layer.expert_weight.copy_(self.workspace)
        self.workspace_free.record(main)


class MoELayer:
    def __init__(self, num_experts, hidden, device):
        self.expert_weight = torch.randn(num_experts, hidden, hidden, device=device)

    def forward(self, x, expert):
        return x @ self.expert_weight[expert]


def serve(batches, num_layers=8, num_experts=16, hidden=1024):
    device = torch.device("cuda", 0)
    layers = [MoELayer(num_experts, hidden, device) for _ in range(num_layers)]
    plan = [torch.randperm(num_experts).to(device) for _ in range(num_layers)]
    rearranger = AsyncRearranger(layers, device)
    outputs = []
    for step, x in enumerate(batches):
        x = x.to(device)
        for i, layer in enumerate(layers):
            x = layer.forward(x, step % num_experts)
        outputs.append(x.sum())
        if step % 200 == 0:
            rearranger.begin(plan)
            for layer in layers:
                rearranger.move_to_weights(layer)
    total = torch.stack(outputs).sum().item()
    rearranger.begin(None)
    rearranger.thread.join()
    return total
