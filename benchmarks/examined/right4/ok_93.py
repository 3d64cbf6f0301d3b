import time

import torch


class Lane:
    def __init__(self, model, rows, width):
        self.model = model
        self.stream = torch.cuda.Stream()
        self.inp = torch.empty(rows, width, pin_memory=True)
        self.out = torch.empty(rows, pin_memory=True)
        self.job = None
        self.stream.wait_stream(torch.cuda.current_stream())

    @property
    def idle(self):
        return self.stream.query()

    def take(self):
        job, self.job = self.job, None
        return None if job is None else (job, self.out.sum().item())

    @torch.inference_mode()
    def give(self, job, rows):
        self.inp.copy_(rows)
        with torch.cuda.stream(self.stream):
            x = self.inp.to("cuda", non_blocking=True)
            self.out.copy_(self.model(x).amax(-1), non_blocking=True)
        self.job = job


class Dispatcher:
    def __init__(self, lanes):
        self.lanes = lanes
        self.results = {}

    def _collect(self, lane):
        done = lane.take()
        if done is not None:
            self.results[done[0]] = done[1]

    def _next_idle(self):
        while True:
            for lane in self.lanes:
                if lane.idle:
                    self._collect(lane)
                    return lane
            time.sleep(0.0002)

    def run(self, jobs):
        for job, rows in jobs:
            self._next_idle().give(job, rows)
        for lane in self.lanes:
            lane.stream.synchronize()
            self._collect(lane)
        return self.results


def main():
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 64)).cuda()
    lanes = [Lane(model, 128, 512) for _ in range(3)]
    return Dispatcher(lanes).run((i, torch.randn(128, 512)) for i in range(200))


if __name__ == "__main__":
    print(len(main()))
