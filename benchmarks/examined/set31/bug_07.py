import torch


class ShardExporter:
    def __init__(self, devices):
        self.streams = {d: torch.cuda.Stream(device=d) for d in devices}

    def export(self, shard):
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream())
        stream = self.streams[shard.device.index]
        host = torch.empty(shard.shape, dtype=shard.dtype, pin_memory=True)
        stream.wait_event(event)
        with torch.cuda.stream(stream):
            host.copy_(shard, non_blocking=True)
        shard.record_stream(stream)
        return host, stream


def main():
    devices = [0, 1]
    torch.cuda.set_device(0)
    weights = [torch.randn(4096, 4096, device=f"cuda:{d}") for d in devices]
    for d in devices:
        torch.cuda.synchronize(d)
    exporter = ShardExporter(devices)
    pending = []
    for w in weights:
        shard = w @ w
        pending.append(exporter.export(shard))
    for host, stream in pending:
        stream.synchronize()
        print(host.abs().mean().item())


if __name__ == "__main__":
    main()
