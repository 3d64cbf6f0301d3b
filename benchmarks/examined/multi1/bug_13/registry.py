import torch

_streams = {}


def stream_of(name):
    if name not in _streams:
        _streams[name] = torch.cuda.Stream()
    return _streams[name]


def names():
    return sorted(_streams)


class Executor:
    def run(self, nodes, bufs):
        current = torch.cuda.current_stream()
        root = torch.cuda.Event()
        root.record(current)
        done = {}
        for node in nodes:
            stream = stream_of(node.lane)
            stream.wait_event(root)
            for dep in node.deps:
                stream.wait_event(done[dep])
            with torch.cuda.stream(stream):
                node.fn(bufs)
                done[node.name] = torch.cuda.Event()
                done[node.name].record()
        for mark in done.values():
            current.wait_event(mark)
        return bufs
