"""cuDF table scored by a CuPy kernel; both libraries work on the default stream."""
import cudf
import cupy as cp
import numpy as np

_score = cp.ElementwiseKernel(
    "float64 amount, float64 mean, float64 std", "float64 z",
    "z = std > 0 ? (amount - mean) / std : 0.0", "score")


class Scorer:
    def __init__(self, key, value):
        self.key, self.value = key, value

    def _group_stats(self, df):
        stats = df.groupby(self.key)[self.value].agg(["mean", "std"]).fillna(0.0)
        return df[[self.key]].merge(stats, left_on=self.key, right_index=True, how="left")

    def __call__(self, df):
        df = df.sort_values(self.key).reset_index(drop=True)
        joined = self._group_stats(df).sort_values(self.key).reset_index(drop=True)
        z = _score(df[self.value].values, joined["mean"].values, joined["std"].values)
        return df.assign(z=cudf.Series(z))

    def outliers(self, df, limit):
        scored = self(df)
        mask = cp.abs(scored["z"].values) > limit
        return scored[cudf.Series(mask)].to_pandas()


def synth(rows):
    rng = np.random.default_rng(0)
    return cudf.DataFrame({
        "account": rng.integers(0, 500, rows),
        "amount": rng.lognormal(3.0, 1.0, rows),
    })


def main():
    scorer = Scorer("account", "amount")
    return scorer.outliers(synth(1 << 18), 4.0).shape


if __name__ == "__main__":
    print(main())
