"""Blockwise Gaussian-kernel matrix-vector products, K(X1, X2)^T v, with streamed blocks."""
import torch


class BlockStream:
    def __init__(self, rows, dim, device):
        self.stream = torch.cuda.Stream(device)
        with torch.cuda.stream(self.stream):
            self.x = torch.empty(rows, dim, device=device)
            self.v = torch.empty(rows, 1, device=device)


def gaussian(a, b, sigma):
    sq = a.square().sum(1, keepdim=True) + b.square().sum(1)[None, :]
    sq = torch.addmm(sq, a, b.t(), alpha=-2.0)
    return torch.exp(sq.clamp_min_(0).mul_(-0.5 / sigma ** 2))


class KernelOperator:
    def __init__(self, centers, sigma, rows=8192, lanes=2, device="cuda"):
        self.device = torch.device(device)
        self.centers = centers.to(self.device)
        self.sigma = sigma
        self.rows = rows
        self.lanes = [BlockStream(rows, centers.shape[1], self.device) for _ in range(lanes)]

    def _blocks(self, n):
        for k, start in enumerate(range(0, n, self.rows)):
            yield self.lanes[k % len(self.lanes)], slice(start, min(start + self.rows, n))

    def mmv(self, data, vec):
        acc = torch.zeros(self.centers.shape[0], 1, device=self.device)
        main = torch.cuda.current_stream(self.device)
        for lane in self.lanes:
            lane.stream.wait_stream(main)
        for lane, rows in self._blocks(data.shape[0]):
            m = rows.stop - rows.start
            with torch.cuda.stream(lane.stream):
                x, v = lane.x[:m], lane.v[:m]
                x.copy_(data[rows], non_blocking=True)
                v.copy_(vec[rows], non_blocking=True)
                block = gaussian(self.centers, x, self.sigma)
                acc.addmm_(block, v)
        for lane in self.lanes:
            main.wait_stream(lane.stream)
        return acc


def conjugate_gradient(op, data, targets, iterations, damping):
    n = data.shape[0]
    alpha = torch.zeros(op.centers.shape[0], 1, device=op.device)
    residual = op.mmv(data, targets) / n
    direction = residual.clone()
    rs = (residual * residual).sum()
    for _ in range(iterations):
        step = rs / (direction * (direction + damping)).sum().clamp_min(1e-12)
        alpha = alpha + step * direction
        residual = residual - step * direction
        fresh = (residual * residual).sum()
        direction = residual + (fresh / rs.clamp_min(1e-12)) * direction
        rs = fresh
    return alpha


def main():
    torch.manual_seed(0)
    data = torch.randn(200_000, 64).pin_memory()
    targets = torch.sin(data[:, :1]).contiguous().pin_memory()
    op = KernelOperator(data[:2048].clone(), sigma=4.0)
    alpha = conjugate_gradient(op, data, targets, iterations=5, damping=1e-3)
    print(alpha.norm().item())


if __name__ == "__main__":
    main()
