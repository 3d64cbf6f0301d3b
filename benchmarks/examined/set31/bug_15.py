import torch


class Backend:
    def __init__(self):
        self.compute = torch.cuda.Stream()
        self.transfer = torch.cuda.Stream()

    def matmul(self, a, b, out):
        with torch.cuda.stream(self.compute):
            torch.matmul(a, b, out=out)

    def get_async(self, tensor, host):
        with torch.cuda.stream(self.transfer):
            host.copy_(tensor, non_blocking=True)

    def synchronize_transfer(self):
        self.transfer.synchronize()


def main():
    be = Backend()
    a = torch.randn(4096, 4096, device="cuda")
    b = torch.randn(4096, 4096, device="cuda")
    out = torch.zeros(4096, 4096, device="cuda")
    host = torch.empty(4096, 4096, pin_memory=True)
    torch.cuda.synchronize()
    be.matmul(a, b, out)
    be.get_async(out, host)
    be.synchronize_transfer()
    print(host.sum().item())


if __name__ == "__main__":
    main()
