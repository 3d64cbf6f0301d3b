import torch


class Monitor:
    def __init__(self, n):
        self.stream = torch.cuda.Stream()
        self.host = torch.empty(n, pin_memory=True)

    def read(self, stats):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.host.copy_(stats, non_blocking=True)
            bad = torch.isnan(stats).any().item()
        stats.record_stream(self.stream)
        if bad:
            raise FloatingPointError("non finite statistics")
        return self.host.tolist()


def main():
    mon = Monitor(8)
    for _ in range(4):
        x = torch.randn(8, 65536, device="cuda")
        print(mon.read(x.mean(dim=1)))


if __name__ == "__main__":
    main()
