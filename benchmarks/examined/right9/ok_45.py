from concurrent.futures import ThreadPoolExecutor, as_completed

import torch


def _factor(block, jitter):
    stream = torch.cuda.Stream(block.device)
    with torch.cuda.stream(stream):
        eye = torch.eye(block.shape[0], device=block.device)
        chol = torch.linalg.cholesky(block @ block.t() / block.shape[1] + jitter * eye)
        logdet = 2 * chol.diagonal().log().sum()
    stream.synchronize()
    return chol, logdet


class BlockPreconditioner:
    """Cholesky factors of diagonal blocks, computed by worker threads."""

    def __init__(self, data, block, jitter=1e-3, workers=4):
        self.block = block
        self.pool = ThreadPoolExecutor(workers)
        blocks = data.split(block)
        ready = torch.cuda.current_stream().record_event()
        ready.synchronize()
        futures = {self.pool.submit(_factor, b, jitter): i for i, b in enumerate(blocks)}
        self.factors = [None] * len(blocks)
        self.logdet = 0.0
        for fut in as_completed(futures):
            chol, logdet = fut.result()
            self.factors[futures[fut]] = chol
            self.logdet += logdet.item()

    def apply(self, rhs):
        parts = [
            torch.cholesky_solve(r.unsqueeze(1), f).squeeze(1) for r, f in zip(rhs.split(self.block), self.factors)
        ]
        return torch.cat(parts)

    def close(self):
        self.pool.shutdown()
        torch.cuda.synchronize()


def main():
    data = torch.randn(4096, 2048, device="cuda")
    pre = BlockPreconditioner(data, 512)
    rhs = torch.randn(4096, device="cuda")
    for _ in range(10):
        rhs = pre.apply(rhs)
        rhs /= rhs.norm()
    print(pre.logdet, rhs.abs().max().item())
    pre.close()


if __name__ == "__main__":
    main()
