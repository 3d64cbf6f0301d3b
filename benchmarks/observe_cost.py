"""What tracing costs a training loop: plain, observed, and under PyTorch's own CUDA sanitizer.

    python benchmarks/observe_cost.py [--steps 200] [--rounds 2]

Each variant runs the same loop in a process of its own, in turn; the time of a step is the median over
all steps after the first 20 (this machine must have an NVIDIA GPU and PyTorch). The loop is a small
transformer with AdamW and a loader that copies the next batch on a side stream.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

WARM_UP = 20


def loop(steps: int, result: Path) -> None:
    """Train, and write down how long the steps took."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    device = torch.device("cuda")
    layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, dropout=0.0)
    model = nn.Sequential(nn.Linear(64, 256), nn.TransformerEncoder(layer, 4), nn.Linear(256, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    copies = torch.cuda.Stream()
    batches = [
        (torch.randn(32, 16, 64).pin_memory(), torch.randint(10, (32 * 16,)).pin_memory()) for _ in range(8)
    ]

    def fetch(number: int) -> tuple[torch.Tensor, torch.Tensor, torch.cuda.Event]:
        with torch.cuda.stream(copies):
            inputs, labels = (part.to(device, non_blocking=True) for part in batches[number % len(batches)])
            return inputs, labels, copies.record_event()

    times = []
    following = fetch(0)
    for step in range(steps):
        start = time.perf_counter()
        inputs, labels, ready = following
        current = torch.cuda.current_stream()
        current.wait_event(ready)
        inputs.record_stream(current)
        labels.record_stream(current)
        following = fetch(step + 1)
        loss = nn.functional.cross_entropy(model(inputs).reshape(-1, 10), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            loss.item()
        times.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    content = {"times": times, "loss": loss.item(), "torch": torch.__version__, "rss_mb": memory}
    result.write_text(json.dumps(content))


def run(variant: str, steps: int) -> dict[str, float | str]:
    """Run one variant in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result.json")
        command = [str(Path(__file__).resolve()), "--loop", str(result), "--steps", str(steps)]
        environment = dict(os.environ)
        environment.pop("TORCH_CUDA_SANITIZER", None)
        if variant == "sanitizer":
            environment["TORCH_CUDA_SANITIZER"] = "1"
        before = ["-m", "streamlint", "confirm", "--observe"] if variant == "observe" else []
        start = time.perf_counter()
        ended = subprocess.run(
            [sys.executable, *before, *command], env=environment, capture_output=True, text=True, check=False
        )
        seconds = time.perf_counter() - start
        if not result.is_file():
            raise SystemExit(f"{variant}: {ended.stdout}{ended.stderr}")
        measured = json.loads(result.read_text())
        times = measured["times"][WARM_UP:]
        return {
            "variant": variant,
            "step_ms": 1000 * median(times),
            "mean_ms": 1000 * sum(times) / len(times),
            "process_s": seconds,
            "rss_mb": measured["rss_mb"],
            "loss": measured["loss"],
            "torch": measured["torch"],
            "last_line": (ended.stdout.strip().splitlines() or [""])[-1] if variant == "observe" else "",
        }


def main() -> None:
    """Print a row for each run, and the slowdowns."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--loop", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.loop is not None:
        loop(options.steps, options.loop)
        return
    means: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for variant in ("plain", "observe", "sanitizer"):
            row = run(variant, options.steps)
            means.setdefault(variant, []).append(float(row["mean_ms"]))
            print(json.dumps(row), flush=True)
    plain = min(means["plain"])
    print({variant: f"{min(values) / plain:.2f}x" for variant, values in means.items()})


if __name__ == "__main__":
    main()
