import torch


class PeerCopier:
    """Copies blocks between GPUs without blocking the host."""

    def __init__(self, devices=None):
        self.devices = devices or list(range(torch.cuda.device_count()))
        self.copy_streams = {}
        for d in self.devices:
            with torch.cuda.device(d):
                self.copy_streams[d] = torch.cuda.Stream()
        self.src_ready = torch.cuda.Event()

    def clone_peer(self, src, dst_device):
        """The current stream of dst_device may use the result at once."""
        src_device = src.device.index
        if src_device == dst_device:
            return src.clone()
        self.src_ready.record(torch.cuda.current_stream(src_device))
        consumer = torch.cuda.current_stream(dst_device)
        with torch.cuda.device(dst_device):
            dst = torch.empty(src.shape, dtype=src.dtype, device=f"cuda:{dst_device}")
        copier = self.copy_streams[dst_device]
        copier.wait_event(self.src_ready)
        copier.wait_stream(consumer)
        with torch.cuda.device(dst_device), torch.cuda.stream(copier):
            dst.copy_(src, non_blocking=True)
        src.record_stream(copier)
        consumer.wait_stream(copier)
        return dst


class RingRelay:
    """Sends the hidden states of stage i on GPU i to GPU i + 1."""

    def __init__(self, stages):
        self.stages = stages
        self.copier = PeerCopier(list(range(len(stages))))

    @torch.inference_mode()
    def forward(self, x):
        for i, stage in enumerate(self.stages):
            with torch.cuda.device(i):
                x = stage(x)
            if i + 1 < len(self.stages):
                x = self.copier.clone_peer(x, i + 1)
        return x


def build(n_stages, dim):
    stages = []
    for i in range(n_stages):
        layer = torch.nn.Sequential(torch.nn.Linear(dim, 4 * dim), torch.nn.GELU(), torch.nn.Linear(4 * dim, dim))
        stages.append(layer.to(f"cuda:{i}", dtype=torch.bfloat16))
    return RingRelay(stages)


def main(dim=4096, batch=64, steps=10):
    n = torch.cuda.device_count()
    if n < 3:
        raise SystemExit("needs at least three GPUs")
    relay = build(n, dim)
    x = torch.randn(batch, dim, device="cuda:0", dtype=torch.bfloat16)
    for _ in range(steps):
        y = relay.forward(x)
    print(y.float().norm().item())


if __name__ == "__main__":
    main()
