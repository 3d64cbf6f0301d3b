import torch


class Exporter:
    def __init__(self):
        self.stream = torch.cuda.Stream()

    def export(self, tensor):
        self.stream.wait_stream(torch.cuda.current_stream())
        host = torch.empty(tensor.shape, pin_memory=True)
        with torch.cuda.stream(self.stream):
            host.copy_(tensor, non_blocking=True)
        tensor.record_stream(self.stream)
        return host

    def flush(self):
        self.stream.synchronize()


def main():
    exp = Exporter()
    hosts = []
    for i in range(16):
        t = torch.full((1 << 20,), float(i), device="cuda")
        hosts.append(exp.export(t))
        del t
    exp.flush()
    print([h[0].item() for h in hosts])


if __name__ == "__main__":
    main()
