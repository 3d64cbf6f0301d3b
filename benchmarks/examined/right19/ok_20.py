import threading
from concurrent.futures import ThreadPoolExecutor, as_completed

import torch

local = threading.local()


def enter(device):
    torch.cuda.set_device(device)
    local.stream = torch.cuda.Stream(device)


def relax(grid, rhs, out, lo, hi, sweeps, start):
    rows = grid.size(0)
    a, b = max(lo - sweeps, 0), min(hi + sweeps, rows)
    with torch.cuda.stream(local.stream):
        local.stream.wait_event(start)
        tile = grid[a:b].clone()
        source = rhs[a:b]
        for _ in range(sweeps):
            inner = 0.25 * (tile[:-2, 1:-1] + tile[2:, 1:-1] + tile[1:-1, :-2] + tile[1:-1, 2:] - source[1:-1, 1:-1])
            tile[1:-1, 1:-1] = inner
        out[lo:hi].copy_(tile[lo - a:hi - a])
        return lo, local.stream.record_event()


def residual(grid, rhs):
    lap = grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:] - 4 * grid[1:-1, 1:-1]
    return (lap - rhs[1:-1, 1:-1]).square().mean()


def solve(size=2048, tiles=8, workers=4, rounds=250, sweeps=4):
    device = torch.device("cuda", torch.cuda.current_device())
    grid = torch.zeros(size, size, device=device)
    other = torch.zeros_like(grid)
    rhs = torch.zeros_like(grid)
    rhs[size // 3, size // 3] = -50.0
    rhs[2 * size // 3, size // 2] = 50.0
    step = size // tiles
    spans = [(i * step, size if i == tiles - 1 else (i + 1) * step) for i in range(tiles)]
    curve = []

    with ThreadPoolExecutor(workers, initializer=enter, initargs=(device,)) as pool:
        for r in range(rounds):
            start = torch.cuda.current_stream(device).record_event()
            futures = [pool.submit(relax, grid, rhs, other, lo, hi, sweeps, start) for lo, hi in spans]
            for fut in as_completed(futures):
                _, done = fut.result()
                torch.cuda.current_stream(device).wait_event(done)
            grid, other = other, grid
            if r % 25 == 0:
                curve.append(residual(grid, rhs))
    return grid, torch.stack(curve)


def main():
    grid, curve = solve()
    for i, value in enumerate(curve.tolist()):
        print(i * 25, f"{value:.6g}")
    print(grid.abs().max().item())


if __name__ == "__main__":
    main()
