"""Operator that turns host record batches into device tables (Arrow-like columns)."""
from dataclasses import dataclass

import cupy as cp
import numpy as np


@dataclass
class HostColumn:
    values: np.ndarray
    validity: np.ndarray


@dataclass
class DeviceColumn:
    values: cp.ndarray
    validity: cp.ndarray


class ToDeviceTable:
    """Imports every buffer of a batch through page-locked memory on the operator's stream."""

    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)

    def _import_buffer(self, array):
        staging = cp.cuda.alloc_pinned_memory(array.nbytes)
        host = np.frombuffer(staging, array.dtype, array.size)
        host[...] = array
        device = cp.empty(array.size, dtype=array.dtype)
        device.data.copy_from_host_async(host.ctypes.data, array.nbytes, self.stream)
        return device

    def get_output(self, batch):
        with self.stream:
            return {
                name: DeviceColumn(
                    self._import_buffer(column.values),
                    self._import_buffer(column.validity),
                )
                for name, column in batch.items()
            }


class HashAggregate:
    def __init__(self, stream, key, groups):
        self.stream = stream
        self.key = key
        with stream:
            self.totals = cp.zeros(groups, dtype=cp.float64)
            self.counts = cp.zeros(groups, dtype=cp.int64)

    def add_input(self, table, value):
        with self.stream:
            keys = table[self.key].values
            valid = table[value].validity.astype(cp.bool_)
            weights = cp.where(valid, table[value].values, 0.0)
            self.totals += cp.bincount(keys, weights=weights, minlength=self.totals.size)
            self.counts += cp.bincount(keys[valid], minlength=self.counts.size)

    def finish(self):
        totals = self.totals.get(stream=self.stream)
        counts = self.counts.get(stream=self.stream)
        return totals / np.maximum(counts, 1)


def batches(rng, count, rows, groups):
    for _ in range(count):
        yield {
            name: HostColumn(
                values=values,
                validity=(rng.random(rows) > 0.02).astype(np.uint8),
            )
            for name, values in (
                ("partkey", rng.integers(0, groups, rows)),
                ("supplycost", rng.random(rows)),
                ("availqty", rng.random(rows)),
            )
        }


def main(rows=1 << 20, groups=1000):
    source = ToDeviceTable()
    aggregate = HashAggregate(source.stream, "partkey", groups)
    for batch in batches(np.random.default_rng(11), 30, rows, groups):
        table = source.get_output(batch)
        aggregate.add_input(table, "supplycost")
        aggregate.add_input(table, "availqty")
    print(aggregate.finish()[:8])


if __name__ == "__main__":
    main()
