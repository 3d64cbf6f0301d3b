import torch


class Ticket:
    """What is left of a finished move: wait() puts it before later work."""

    def __init__(self, index, event):
        self.index = index
        self.event = event

    def wait(self, stream=None):
        (stream or torch.cuda.current_stream()).wait_event(self.event)


class PinnedBlocks:
    """Host copies of the weights of all blocks of a model."""

    def __init__(self, blocks):
        self._rows = []
        for block in blocks:
            row = {n: p.detach().cpu().pin_memory() for n, p in block.named_parameters()}
            self._rows.append(row)

    def __len__(self):
        return len(self._rows)

    def move_in(self, index, room, stream, after):
        stream.wait_event(after)
        with torch.cuda.stream(stream):
            for name, w in self._rows[index].items():
                room[name].copy_(w, non_blocking=True)
            done = torch.cuda.Event()
            done.record(stream)
        return Ticket(index, done)
