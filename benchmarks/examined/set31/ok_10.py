import cupy as cp
import torch


class Shared:
    def __init__(self):
        self.cp_stream = cp.cuda.Stream(non_blocking=True)
        self.stream = torch.cuda.ExternalStream(self.cp_stream.ptr)

    def run(self, host):
        with self.cp_stream, torch.cuda.stream(self.stream):
            x = torch.from_numpy(host).cuda()
            y = x @ x
            view = cp.asarray(y)
            view += 1
            total = y.sum()
            return total.item()


def main():
    import numpy as np

    shared = Shared()
    for i in range(4):
        print(shared.run(np.full((1024, 1024), i, dtype=np.float32)))


if __name__ == "__main__":
    main()
