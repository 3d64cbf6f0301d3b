import os

os.environ["CUDF_PER_THREAD_STREAM"] = "0"
os.environ["CUPY_CUDA_PER_THREAD_DEFAULT_STREAM"] = "0"

import cudf  # noqa: E402
import cupy as cp  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402


class FrameDataset:
    """Feature columns in cuDF, batches as torch tensors, all on stream 0."""

    def __init__(self, frame, label):
        self.frame = frame
        self.label = label
        self.columns = [c for c in frame.columns if c != label]

    def epoch(self, rows):
        shuffled = self.frame.sample(frac=1.0).reset_index(drop=True)
        for start in range(0, len(shuffled) - rows + 1, rows):
            part = shuffled.iloc[start : start + rows]
            matrix = cp.ascontiguousarray(part[self.columns].to_cupy().astype(cp.float32))
            target = part[self.label].to_cupy().astype(cp.float32)
            yield torch.from_dlpack(matrix), torch.from_dlpack(target)


def make_frame(n):
    rng = np.random.default_rng(0)
    frame = cudf.DataFrame({f"f{i}": rng.standard_normal(n) for i in range(8)})
    frame["group"] = cudf.Series(rng.integers(0, 50, n))
    mean = frame.groupby("group").f0.mean().rename("group_mean")
    frame = frame.merge(mean.reset_index(), on="group").drop(columns=["group"])
    frame["y"] = frame.f0 * 2 - frame.f3 + frame.group_mean
    return frame


def main():
    data = FrameDataset(make_frame(1 << 18), "y")
    net = torch.nn.Sequential(torch.nn.Linear(9, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).cuda()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(3):
        for x, y in data.epoch(4096):
            loss = (net(x).squeeze(1) - y).square().mean()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
