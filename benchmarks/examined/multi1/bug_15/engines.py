import torch


class DirectEngine:
    def __init__(self, model, batch, classes):
        self.model = model
        self.out = torch.empty(batch, classes, device="cuda")

    def infer(self, x):
        self.out.copy_(self.model(x))
        return self.out

    def flush(self):
        pass


class LaneEngine(DirectEngine):
    def __init__(self, model, batch, classes):
        super().__init__(model, batch, classes)
        self.lane = torch.cuda.Stream(priority=-1)

    def infer(self, x):
        self.lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.lane):
            self.out.copy_(self.model(x))
        x.record_stream(self.lane)
        return self.out

    def flush(self):
        torch.cuda.current_stream().wait_stream(self.lane)
