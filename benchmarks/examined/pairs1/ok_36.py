"""Cache connectors share a base class that takes care of the streams."""
import torch


class ConnectorBase:
    def __init__(self, kv):
        self.kv = kv
        self.stream = torch.cuda.Stream()

    def start_load(self, blocks):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self._load(blocks)
        self._loaded = self.stream.record_event()

    def wait_for_load(self):
        torch.cuda.current_stream().wait_event(self._loaded)

    def _load(self, blocks):
        raise NotImplementedError


class HostConnector(ConnectorBase):
    def __init__(self, kv, host):
        super().__init__(kv)
        self.host = host

    def _load(self, blocks):
        for src, dst in blocks:
            self.kv[dst].copy_(self.host[src], non_blocking=True)


class CompressedConnector(HostConnector):
    def __init__(self, kv, host, scale):
        super().__init__(kv, host)
        self.scale = scale

    def _load(self, blocks):
        for src, dst in blocks:
            packed = self.host[src].to("cuda", non_blocking=True)
            self.kv[dst].copy_(packed.to(self.kv.dtype) * self.scale)


def main(steps=60):
    kv = torch.zeros(32, 16, 512, device="cuda", dtype=torch.float16)
    host = torch.randint(-127, 127, (256, 16, 512), dtype=torch.int8).pin_memory()
    connector = CompressedConnector(kv, host, 1 / 127)
    q = torch.randn(16, 512, device="cuda", dtype=torch.float16)
    for step in range(steps):
        connector.start_load([((step * 32 + i) % 256, i) for i in range(32)])
        q = torch.tanh(q)
        connector.wait_for_load()
        mem = kv.flatten(0, 1)
        q = q + (q @ mem.T).softmax(-1) @ mem
    print(q.float().norm().item())


if __name__ == "__main__":
    main()
