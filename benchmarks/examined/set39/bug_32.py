"""Small stream-aware data frame with inner and semi joins."""
import cupy as cp
import numpy as np


class Frame:
    def __init__(self, columns, stream):
        self.columns = columns
        self.stream = stream

    @classmethod
    def from_host(cls, data):
        stream = cp.cuda.Stream(non_blocking=True)
        with stream:
            cols = {}
            for name, values in data.items():
                block = cp.empty(values.shape, values.dtype)
                block.set(values, stream=stream)
                cols[name] = block
        return cls(cols, stream)

    def sort_by(self, name):
        with self.stream:
            order = cp.argsort(self.columns[name])
            self.columns = {k: v[order] for k, v in self.columns.items()}
        return self

    def to_host(self):
        with self.stream:
            out = {k: v.get(stream=self.stream) for k, v in self.columns.items()}
        self.stream.synchronize()
        return out


def join_streams(downstream, upstreams):
    for up in upstreams:
        downstream.wait_event(up.record())


def _probe(left, right, stream=None):
    with stream or cp.cuda.Stream.null:
        return cp.isin(left, right)


def _match(left, right, stream):
    with stream:
        slot = cp.searchsorted(right, left)
        slot = cp.minimum(slot, right.size - 1)
        return cp.nonzero(right[slot] == left)[0], slot


def join(left, right, on, how="inner"):
    stream = cp.cuda.Stream(non_blocking=True)
    join_streams(stream, (left.stream, right.stream))
    lk, rk = left.columns[on], right.columns[on]
    if how == "inner":
        rows, slot = _match(lk, rk, stream)
        with stream:
            out = {k: v[rows] for k, v in left.columns.items()}
            out.update({k: v[slot[rows]] for k, v in right.columns.items() if k != on})
    elif how == "semi":
        mask = _probe(lk, rk)
        with stream:
            out = {k: cp.where(mask, v, 0) for k, v in left.columns.items()}
    else:
        raise ValueError(how)
    return Frame(out, stream)


def main(rows=1 << 22):
    rng = np.random.default_rng(2)
    orders = Frame.from_host({
        "key": rng.integers(0, 1 << 20, rows),
        "price": rng.random(rows),
    }).sort_by("key")
    late = Frame.from_host({"key": rng.integers(0, 1 << 20, rows // 8)}).sort_by("key")
    got = join(orders, late, "key", how="semi")
    host = got.to_host()
    print("kept", int((host["price"] > 0).sum()), "total", float(host["price"].sum()))


if __name__ == "__main__":
    main()
