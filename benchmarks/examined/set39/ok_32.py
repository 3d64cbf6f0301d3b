"""Column store whose operators fall back to the null stream."""
import cupy as cp
import numpy as np


class Column:
    def __init__(self, values):
        self.stream = cp.cuda.Stream()
        with self.stream:
            self.data = cp.empty(values.shape, values.dtype)
            self.data.set(values, stream=self.stream)

    def map(self, fn):
        with self.stream:
            self.data = fn(self.data)
        return self


class Table:
    def __init__(self, **columns):
        self.columns = {k: Column(v) for k, v in columns.items()}

    def __getitem__(self, name):
        return self.columns[name]

    def describe(self):
        return {k: (c.data.shape, str(c.data.dtype)) for k, c in self.columns.items()}


def combine(fn, *columns, stream=None):
    with stream or cp.cuda.Stream.null:
        return fn(*(c.data for c in columns))


def grouped_sum(keys, values, groups):
    return combine(
        lambda k, v: cp.bincount(k, weights=v, minlength=groups), keys, values
    )


def scale_by_group(table, groups):
    totals = grouped_sum(table["key"], table["value"], groups)
    key = table["key"]
    table["value"].map(lambda v: v / cp.maximum(totals[key.data], 1e-9))
    return totals


def main(rows=1 << 20, groups=512):
    rng = np.random.default_rng(8)
    table = Table(key=rng.integers(0, groups, rows), value=rng.random(rows))
    table["value"].map(cp.sqrt).map(lambda v: v * 2)
    scale_by_group(table, groups)
    print(table.describe())
    share = grouped_sum(table["key"], table["value"], groups)
    host = share.get()
    present = host[host > 0]
    print("groups", present.size, "max error", float(np.abs(present - 1).max()))


if __name__ == "__main__":
    main()
