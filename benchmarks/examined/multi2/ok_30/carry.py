import torch


def carry(values, where="cpu"):
    """Moves a dict of tensors in one go, without stopping for each."""
    return {k: v.detach().to(where, non_blocking=True) for k, v in values.items()}


class Bag:
    """Host copies of this step's numbers, to be read by `close`."""

    def __init__(self):
        self._open = {}
        self.rows = []

    def put(self, **values):
        self._open.update(carry(values))

    def close(self, step, loss):
        row = {"step": step, "loss": loss}
        for k, v in self._open.items():
            row[k] = float(v) if v.numel() == 1 else v.tolist()
        self._open.clear()
        self.rows.append(row)
        return row
