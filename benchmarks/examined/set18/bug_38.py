import os
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import nn


def flatten_state_dict(model: nn.Module, optimizer: torch.optim.Optimizer):
    """Tensors of model and optimizer by checkpoint key."""
    flat = {f"model/{name}": p.detach() for name, p in model.named_parameters()}
    for group in optimizer.param_groups:
        for index, p in enumerate(group["params"]):
            for key, value in optimizer.state[p].items():
                if torch.is_tensor(value) and value.is_cuda:
                    flat[f"optim/{index}/{key}"] = value
    return flat


class OverlappedStager:
    def __init__(self, device: torch.device):
        self.copy_stream = torch.cuda.Stream(device, priority=0)
        self.host: dict[str, torch.Tensor] = {}

    def stage(self, flat: dict[str, torch.Tensor]):
        for key, tensor in flat.items():
            if key not in self.host:
                self.host[key] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            for key, tensor in flat.items():
                self.host[key].copy_(tensor, non_blocking=True)
            staged = torch.cuda.Event()
            staged.record(self.copy_stream)
        return self.host, staged


class AsyncCheckpointer:
    def __init__(self, folder: str, device: torch.device):
        self.folder = folder
        self.stager = OverlappedStager(device)
        self.executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ckpt")

    def async_save(self, step: int, flat: dict[str, torch.Tensor]) -> Future:
        host, staged = self.stager.stage(flat)
        return self.executor.submit(self._write, step, host, staged)

    def _write(self, step: int, host, staged: torch.cuda.Event) -> str:
        staged.synchronize()
        path = os.path.join(self.folder, f"checkpoint_{step}.pt")
        torch.save({key: value for key, value in host.items()}, path)
        return path

    def shutdown(self):
        self.executor.shutdown(wait=True)


class ToyModel(nn.Module):
    def __init__(self, dim: int = 2048, depth: int = 12):
        super().__init__()
        self.net = nn.Sequential(
            *(m for _ in range(depth) for m in (nn.Linear(dim, dim), nn.ReLU()))
        )
        self.out = nn.Linear(dim, 16)

    def forward(self, x):
        return self.out(self.net(x))


def run_training(folder: str, steps: int = 10, dim: int = 2048, batch: int = 64):
    device = torch.device("cuda")
    torch.manual_seed(0)
    model = ToyModel(dim).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    checkpointer = AsyncCheckpointer(folder, device)

    checkpoint_future: Future | None = None
    written = []
    for step in range(steps):
        x = torch.rand(batch, dim, device=device)
        target = x[:, :16]

        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()

        if checkpoint_future is not None:
            written.append(checkpoint_future.result())
        checkpoint_future = checkpointer.async_save(step, flatten_state_dict(model, optimizer))

    if checkpoint_future is not None:
        written.append(checkpoint_future.result())
    checkpointer.shutdown()
    return written, loss.item()


def main():
    with tempfile.TemporaryDirectory() as folder:
        written, loss = run_training(folder)
        last = torch.load(written[-1])
        total = sum(v.numel() for v in last.values())
        print(f"{len(written)} checkpoints, {total} elements, loss {loss:.4f}")


if __name__ == "__main__":
    main()
