import cupy as cp

_add = cp.ElementwiseKernel("float32 x", "float32 acc", "acc += x", "acc_add")


class Accumulator:
    def __init__(self, n):
        self.acc = cp.empty(n, dtype=cp.float32)
        self.stream = cp.cuda.Stream(non_blocking=True)
        cp.cuda.Device().synchronize()

    def reset(self):
        cp.cuda.runtime.memsetAsync(self.acc.data.ptr, 0, self.acc.nbytes, 0)

    def add(self, parts):
        with self.stream:
            for part in parts:
                _add(part, self.acc)

    def result(self):
        self.stream.synchronize()
        return float(self.acc[0])


def main():
    n = 1 << 26
    acc = Accumulator(n)
    parts = [cp.full(n, i, dtype=cp.float32) for i in range(4)]
    cp.cuda.Device().synchronize()
    for _ in range(3):
        acc.reset()
        acc.add(parts)
        print(acc.result())


if __name__ == "__main__":
    main()
