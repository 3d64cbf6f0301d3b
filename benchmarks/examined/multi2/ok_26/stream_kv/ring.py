import torch


class HostKV:
    """Keys and values of long prompts in page-locked memory, by chunk."""

    def __init__(self, opt):
        shape = (opt.layers, 2, opt.heads, opt.context, opt.head_dim)
        self.data = torch.randn(shape).half().pin_memory()
        self.chunk = opt.chunk
        self.count = opt.context // opt.chunk

    def piece(self, layer, i):
        return self.data[layer, :, :, i * self.chunk:(i + 1) * self.chunk]


class RingKV:
    """Two device chunks, filled in turn on the feeder stream."""

    def __init__(self, opt, host):
        self.host = host
        self.device = torch.device(opt.device)
        shape = (2, opt.heads, opt.chunk, opt.head_dim)
        self.cells = [torch.empty(shape, dtype=torch.float16, device=self.device) for _ in range(2)]
        self.feeder = torch.cuda.Stream(self.device)

    @property
    def _main(self):
        return torch.cuda.default_stream(self.device)

    def _feed(self, layer, i):
        cell = self.cells[i % 2]
        self.feeder.wait_stream(self._main)
        src = self.host.piece(layer, i)
        with torch.cuda.stream(self.feeder):
            for to, row in zip(cell.view(-1, *cell.shape[2:]), src.flatten(0, 1)):
                to.copy_(row, non_blocking=True)

    def chunks(self, layer):
        """Yields (keys, values); the next chunk is on its way meanwhile."""
        self._feed(layer, 0)
        for i in range(self.host.count):
            self._main.wait_stream(self.feeder)
            if i + 1 < self.host.count:
                self._feed(layer, i + 1)
            k, v = self.cells[i % 2]
            yield k, v
