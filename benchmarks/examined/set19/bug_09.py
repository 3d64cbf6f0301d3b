"""Workload generator for critical-path analysis: three streams, one cross-stream dependency per iteration."""
import argparse

import torch
from torch.profiler import ProfilerActivity, profile, record_function


class Workload:
    def __init__(self, n, device):
        self.device = device
        self.a = torch.randn(n, n, device=device)
        self.b = torch.randn(n, n, device=device)
        self.c = torch.randn(n, n, device=device)
        self.result = torch.empty(n, n, device=device)
        self.scratch = torch.empty(n, n, device=device)
        self.result1 = torch.empty(n, n, device=device)
        self.checks = []


class Streams:
    def __init__(self, device):
        self.first = torch.cuda.Stream(device=device)
        self.second = torch.cuda.Stream(device=device)
        self.third = torch.cuda.Stream(device=device)

    def fork_from(self, stream):
        for s in (self.first, self.second, self.third):
            s.wait_stream(stream)

    def join_into(self, stream):
        for s in (self.first, self.second, self.third):
            stream.wait_stream(s)


def iteration(work, streams, event, index):
    with record_function(f"iteration_{index}"):
        with torch.cuda.stream(streams.first):
            torch.matmul(work.a, work.b, out=work.scratch)

        with torch.cuda.stream(streams.third):
            torch.matmul(work.a, work.b, out=work.result)
            work.result.mul_(1.0 / work.a.shape[0])

        event.record(streams.first)
        event.wait(streams.second)

        with torch.cuda.stream(streams.second):
            torch.matmul(work.c, work.result, out=work.result1)
            work.checks.append(work.result1.abs().amax())


def run(args):
    device = torch.device("cuda", args.device)
    torch.cuda.set_device(device)
    work = Workload(args.size, device)
    streams = Streams(device)
    event = torch.cuda.Event()
    main = torch.cuda.current_stream()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
        for i in range(args.iterations):
            streams.fork_from(main)
            iteration(work, streams, event, i)
            streams.join_into(main)
        torch.cuda.synchronize()
    prof.export_chrome_trace(args.trace)
    return [c.item() for c in work.checks]


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--trace", default="critical_path.json")
    return parser.parse_args()


if __name__ == "__main__":
    print(run(parse()))
