"""Signal a collector stream from the middle of a replayed graph with external events."""
import torch
import torch.nn as nn


class PartialResults:
    """Stages of a graph publish their output; a copy stream fetches it early."""

    def __init__(self, num_stages, shape, device):
        self.copy_stream = torch.cuda.Stream(device=device)
        self.stage_done = [torch.cuda.Event(external=True) for _ in range(num_stages)]
        self.host = [torch.empty(shape, pin_memory=True) for _ in range(num_stages)]
        self.copied = [torch.cuda.Event() for _ in range(num_stages)]

    def fetch(self, stage, tensor):
        self.copy_stream.wait_event(self.stage_done[stage])
        with torch.cuda.stream(self.copy_stream):
            self.host[stage].copy_(tensor, non_blocking=True)
            self.copied[stage].record(self.copy_stream)

    def read(self, stage):
        self.copied[stage].synchronize()
        return self.host[stage]


class StagedModel:
    def __init__(self, hidden, stages, device):
        self.device = device
        self.blocks = [
            nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden))
            .to(device).eval()
            for _ in range(stages)
        ]
        self.static_in = torch.zeros(64, hidden, device=device)
        self.results = PartialResults(stages, (64, hidden), device)
        self.stage_out = []
        self.graph = torch.cuda.CUDAGraph()
        self._capture()

    @torch.no_grad()
    def _capture(self):
        side = torch.cuda.Stream(device=self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            x = self.static_in
            for block in self.blocks:
                x = block(x)
        torch.cuda.current_stream(self.device).wait_stream(side)
        torch.cuda.synchronize(self.device)
        with torch.cuda.graph(self.graph):
            x = self.static_in
            for block, event in zip(self.blocks, self.results.stage_done):
                x = block(x)
                self.stage_out.append(x)
                event.record()

    @torch.no_grad()
    def launch(self, batch):
        current = torch.cuda.current_stream(self.device)
        current.wait_stream(self.results.copy_stream)
        self.static_in.copy_(batch)
        self.graph.replay()
        for i, out in enumerate(self.stage_out):
            self.results.fetch(i, out)

    def collect(self):
        return [self.results.read(i).clone() for i in range(len(self.blocks))]


def run(batches, hidden=1024, stages=6):
    device = torch.device("cuda", 0)
    model = StagedModel(hidden, stages, device)
    history = []
    for batch in batches:
        model.launch(batch.to(device))
        history.append(model.collect())
    return history
