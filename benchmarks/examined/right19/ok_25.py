"""Two captured replicas of a model, fed and drained by copy streams."""
import torch
import torch.nn as nn


class Replica:
    def __init__(self, model, shape, out_width):
        self.model = model
        self.stage = torch.empty(*shape, pin_memory=True)
        self.result = torch.empty(shape[0], out_width, pin_memory=True)
        self.x = torch.zeros(*shape, device="cuda")
        self.filled = torch.cuda.Event()
        self.ran = torch.cuda.Event()
        self.drained = torch.cuda.Event()
        self.tag = None
        self._capture()

    def _capture(self):
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm), torch.no_grad():
            for _ in range(3):
                self.model(self.x)
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.y = self.model(self.x)


class GraphServer:
    def __init__(self, model, shape, out_width, replicas=2):
        self.replicas = [Replica(model, shape, out_width) for _ in range(replicas)]
        torch.cuda.synchronize()
        self.h2d = torch.cuda.Stream()
        self.d2h = torch.cuda.Stream()
        self.compute = torch.cuda.Stream()
        self.issued = 0
        self.answers = {}

    def _retire(self, rep):
        if rep.tag is None:
            return
        rep.drained.synchronize()
        self.answers[rep.tag] = rep.result.clone()
        rep.tag = None

    def push(self, tag, batch):
        rep = self.replicas[self.issued % len(self.replicas)]
        self.issued += 1
        rep.filled.synchronize()
        rep.stage.copy_(batch)

        self.h2d.wait_event(rep.ran)
        with torch.cuda.stream(self.h2d):
            rep.x.copy_(rep.stage, non_blocking=True)
            rep.filled.record()

        self._retire(rep)
        self.compute.wait_event(rep.filled)
        with torch.cuda.stream(self.compute):
            rep.graph.replay()
            rep.ran.record()

        self.d2h.wait_event(rep.ran)
        with torch.cuda.stream(self.d2h):
            rep.result.copy_(rep.y, non_blocking=True)
            rep.drained.record()
        rep.tag = tag

    def finish(self):
        for rep in self.replicas:
            self._retire(rep)
        return self.answers


def main():
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 64)).cuda().eval()
    server = GraphServer(model, (128, 256), 64, replicas=2)
    gen = torch.Generator().manual_seed(5)
    for tag in range(400):
        server.push(tag, torch.randn(128, 256, generator=gen))
    answers = server.finish()
    print(len(answers), sum(float(a.sum()) for a in answers.values()))


if __name__ == "__main__":
    main()
