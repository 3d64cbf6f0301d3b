"""All-gather of shards over the GPUs of one host with explicit peer copies."""
import torch


class PeerAllGather:
    def __init__(self, devices, rows, dim):
        self.devices = devices
        self.rows = rows
        self.full = {d: torch.empty(rows * len(devices), dim, device=d) for d in devices}
        self.pull = {d: torch.cuda.Stream(d) for d in devices}
        self.shard_ready = {d: torch.cuda.Event() for d in devices}
        self.gathered = {d: torch.cuda.Event() for d in devices}

    def __call__(self, shards):
        for d in self.devices:
            self.shard_ready[d].record(torch.cuda.current_stream(d))
        for dst in self.devices:
            stream = self.pull[dst]
            with torch.cuda.device(dst), torch.cuda.stream(stream):
                for d in self.devices:
                    stream.wait_event(self.shard_ready[d])
                for i, src in enumerate(self.devices):
                    part = self.full[dst][i * self.rows:(i + 1) * self.rows]
                    part.copy_(shards[src], non_blocking=True)
                self.gathered[dst].record(stream)
        for d in self.devices:
            for dst in self.devices:
                torch.cuda.current_stream(d).wait_event(self.gathered[dst])
        return self.full


def main():
    devices = [torch.device("cuda", i) for i in range(torch.cuda.device_count())]
    gather = PeerAllGather(devices, 1024, 512)
    weights = {d: torch.randn(512, 512, device=d) for d in devices}
    shards = {d: torch.randn(1024, 512, device=d) for d in devices}
    for _ in range(10):
        shards = {d: torch.tanh(shards[d] @ weights[d]) for d in devices}
        full = gather(shards)
        means = [full[d].mean().item() for d in devices]
    print(means)


if __name__ == "__main__":
    main()
