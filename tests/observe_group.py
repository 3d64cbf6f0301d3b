"""Observes functions that communicate: ``torchrun --nproc-per-node 2 -m tests.observe_group FILE::NAME...``.

Each process is a rank with a GPU of its own, runs all functions in order, and prints one line of JSON for
each (see ``tests/observe_fixtures.py``).
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

from streamlint.confirm.observe.observer import Observer
from tests.observe_fixtures import ROOT, row


def main(functions: list[str]) -> None:
    """Join the group, and run the functions."""
    observer = Observer(ROOT)
    observer.install()
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    dist.all_reduce(torch.ones(1, device="cuda"))
    for one in functions:
        file, _, name = one.partition("::")
        path = Path(file).resolve()
        sys.path.insert(0, str(path.parent))
        function = getattr(importlib.import_module(path.stem), name)
        torch.cuda.synchronize()
        observer.forget()
        function()
        print(json.dumps(row(path, name, observer.take(), "")), flush=True)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
