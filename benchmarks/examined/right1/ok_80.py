"""CuPy routines as torch operations, handed over by DLPack."""
import cupy as cp
import torch


class CupyOp:
    """Runs a CuPy function on its own stream for a torch tensor."""

    def __init__(self, fn):
        self.fn = fn
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.torch_stream = torch.cuda.ExternalStream(self.stream.ptr)

    def __call__(self, t, *args):
        caller = torch.cuda.current_stream()
        t = t.detach().contiguous()
        with self.stream:
            result = self.fn(cp.from_dlpack(t), *args)
            out = torch.from_dlpack(result).clone()
        self.torch_stream.wait_stream(caller)
        t.record_stream(self.torch_stream)
        return out


def median_filter(x, width):
    pad = width // 2
    padded = cp.pad(x, ((0, 0), (pad, pad)), mode="edge")
    windows = cp.lib.stride_tricks.as_strided(
        padded, (*x.shape, width), (*padded.strides, padded.strides[-1]))
    return cp.ascontiguousarray(cp.median(windows, axis=-1))


def quantile_clip(x, q):
    lo, hi = cp.percentile(x, cp.asarray([100 * (1 - q), 100 * q]))
    return cp.clip(x, lo, hi)


def clean(signals, ops):
    for op, arg in ops:
        signals = op(signals, arg)
    return signals


def main(rounds=20):
    ops = [(CupyOp(median_filter), 5), (CupyOp(quantile_clip), 0.99)]
    net = torch.nn.Conv1d(1, 8, 9, padding=4).cuda()
    opt = torch.optim.SGD(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(rounds):
        noisy = torch.randn(32, 4096, device="cuda")
        target = clean(noisy, ops)
        loss = (net(noisy[:, None]).mean(1) - target).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    print(main())
