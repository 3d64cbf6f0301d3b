import torch
from torch import nn


class GraphedPredictor:
    def __init__(self, model, batch, features, device="cuda", warmup=3):
        self.device = torch.device(device, torch.cuda.current_device())
        self.model = model.to(self.device).eval()
        self.batch = batch
        self.static_in = torch.zeros(batch, features, device=self.device)
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.no_grad(), torch.cuda.stream(side):
            for _ in range(warmup):
                self.model(self.static_in)
        torch.cuda.current_stream(self.device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.static_out = self.model(self.static_in)
        self.done = torch.cuda.Event()
        self.done.record(torch.cuda.current_stream(self.device))

    @torch.no_grad()
    def __call__(self, x):
        count = x.shape[0]
        if count > self.batch:
            return torch.cat([self(part) for part in x.split(self.batch)])
        stream = torch.cuda.current_stream(self.device)
        stream.wait_event(self.done)
        try:
            self.static_in[:count].copy_(x, non_blocking=True)
            self.graph.replay()
            return self.static_out[:count].clone()
        finally:
            self.done.record(stream)

    @torch.no_grad()
    def load(self, state):
        stream = torch.cuda.current_stream(self.device)
        stream.wait_event(self.done)
        try:
            self.model.load_state_dict(state)
        finally:
            self.done.record(stream)


def make_model(features):
    return nn.Sequential(
        nn.Linear(features, 512), nn.SiLU(),
        nn.Linear(512, 512), nn.SiLU(),
        nn.Linear(512, 16),
    )


def main():
    torch.manual_seed(0)
    model = make_model(64)
    predictor = GraphedPredictor(model, 32, 64)
    streams = [torch.cuda.Stream() for _ in range(2)]
    outputs = []
    for step in range(8):
        stream = streams[step % 2]
        with torch.cuda.stream(stream):
            x = torch.full((32, 64), float(step), device="cuda")
            outputs.append(predictor(x))
    fresh = make_model(64).state_dict()
    predictor.load(fresh)
    tail = predictor(torch.ones(70, 64, device="cuda"))
    for stream in streams:
        torch.cuda.current_stream().wait_stream(stream)
    for out in outputs:
        out.record_stream(torch.cuda.current_stream())
    print([round(out.mean().item(), 4) for out in outputs], tuple(tail.shape))


if __name__ == "__main__":
    main()
