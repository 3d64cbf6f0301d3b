from collections import deque
from typing import Deque, List

import torch


def wait_stream(source, target):
    source.wait_stream(target)


def record_stream(tensor, stream):
    tensor = tensor.new_empty([0]).set_(tensor.untyped_storage())
    tensor.record_stream(stream)


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, prev_stream, next_stream, *input):
        ctx.prev_stream, ctx.next_stream = prev_stream, next_stream
        output = []
        output_stream = torch.cuda.current_stream(next_stream.device)
        with torch.cuda.stream(prev_stream), torch.cuda.stream(next_stream):
            for x in input:
                y = x.to(next_stream.device, non_blocking=True)
                output.append(y)
                record_stream(x, prev_stream)
                record_stream(y, output_stream)
        return tuple(output)

    @staticmethod
    def backward(ctx, *grad_output):
        prev_stream, next_stream = ctx.prev_stream, ctx.next_stream
        grad_input: Deque = deque(maxlen=len(grad_output))
        input_stream = torch.cuda.current_stream(prev_stream.device)
        with torch.cuda.stream(prev_stream), torch.cuda.stream(next_stream):
            for x in reversed(grad_output):
                y = x.to(prev_stream.device, non_blocking=True)
                grad_input.appendleft(y)
                record_stream(x, next_stream)
                record_stream(y, input_stream)
        return (None, None) + tuple(grad_input)


class Wait(torch.autograd.Function):
    @staticmethod
    def forward(ctx, prev_stream, next_stream, *input):
        ctx.prev_stream, ctx.next_stream = prev_stream, next_stream
        wait_stream(next_stream, prev_stream)
        return tuple(x.detach() for x in input)

    @staticmethod
    def backward(ctx, *grad_input):
        wait_stream(ctx.prev_stream, ctx.next_stream)
        return (None, None) + grad_input


class Pipeline:
    def __init__(self, partitions, devices: List[torch.device], chunks):
        self.partitions = [p.to(d) for p, d in zip(partitions, devices)]
        self.devices = devices
        self.chunks = chunks
        self.copy_streams = [[torch.cuda.Stream(d) for _ in range(chunks)] for d in devices]

    def fence(self, batch, i, j):
        prev, nxt = self.copy_streams[j - 1][i], self.copy_streams[j][i]
        batch = Wait.apply(torch.cuda.current_stream(self.devices[j - 1]), prev, batch)[0]
        batch = Copy.apply(prev, nxt, batch)[0]
        batch = Wait.apply(prev, torch.cuda.current_stream(self.devices[j]), batch)[0]
        return Wait.apply(nxt, torch.cuda.current_stream(self.devices[j]), batch)[0]

    def __call__(self, x):
        batches = list(x.to(self.devices[0]).chunk(self.chunks))
        for j, (partition, device) in enumerate(zip(self.partitions, self.devices)):
            with torch.cuda.device(device):
                for i in range(len(batches)):
                    if j:
                        batches[i] = self.fence(batches[i], i, j)
                    batches[i] = partition(batches[i])
        return torch.cat(batches)
