import torch


class Transport:
    """Host <-> device traffic of the optimizer, off the compute stream."""

    def __init__(self):
        self.stream = torch.cuda.Stream()

    def grads_down(self, shard):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for view, p in shard.pairs(shard.grads):
                view.copy_(p.grad)

    def weights_up(self, shard):
        with torch.cuda.stream(self.stream):
            for view, p in shard.pairs(shard.weights):
                p.data.copy_(view, non_blocking=True)

    def join(self):
        torch.cuda.current_stream().wait_stream(self.stream)


class Inline(Transport):
    """For machines with one copy engine: no stream of its own."""

    def __init__(self):
        self.stream = torch.cuda.current_stream()


def make_transport(kind):
    kinds = {"side": Transport, "inline": Inline}
    try:
        return kinds[kind]()
    except KeyError:
        raise ValueError(f"unknown transport {kind!r}") from None
