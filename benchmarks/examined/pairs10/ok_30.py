"""Rolling risk features: cuDF for the joins, CuPy kernels on a free stream."""
import cudf
import cupy as cp
import numpy as np

DECAY = cp.ElementwiseKernel(
    "float64 price, float64 quantity, float64 rate", "float64 exposure",
    "exposure = price * quantity * exp(-rate)", "decayed_exposure")


class ExposureModel:
    def __init__(self, rate):
        self.rate = rate
        self.stream = cp.cuda.Stream(non_blocking=True)

    def exposures(self, trades, quotes):
        joined = trades.merge(quotes, on="symbol")
        notional = (joined["price"] * 1.0001).values
        quantity = (joined["quantity"] * joined["side"]).values
        exposure = cp.empty(len(joined), dtype=cp.float64)
        cudf_done = cp.cuda.Stream.null.record()
        self.stream.wait_event(cudf_done)
        with self.stream:
            DECAY(notional, quantity, self.rate, exposure)
        cp.cuda.Stream.null.wait_event(self.stream.record())
        joined["exposure"] = cudf.Series(exposure)
        return joined.groupby("book")["exposure"].sum()


def make_trades(rng, rows, symbols, books):
    return cudf.DataFrame({
        "symbol": rng.integers(0, symbols, rows),
        "book": rng.integers(0, books, rows),
        "quantity": rng.integers(1, 500, rows).astype(np.float64),
        "side": rng.choice([-1.0, 1.0], rows),
    })


def main(days=10, rows=500_000, symbols=2000):
    rng = np.random.default_rng(0)
    model = ExposureModel(rate=0.02)
    for day in range(days):
        quotes = cudf.DataFrame({
            "symbol": np.arange(symbols), "price": rng.uniform(1.0, 500.0, symbols)})
        trades = make_trades(rng, rows, symbols, books=16)
        print(day, float(model.exposures(trades, quotes).abs().max()))


if __name__ == "__main__":
    main()
