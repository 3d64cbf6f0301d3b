"""Evaluation metrics that are summed over ranks on a high-priority NCCL group."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class MetricGroup:
    def __init__(self):
        options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
        self.group = dist.new_group(backend="nccl", pg_options=options)
        self.works = []

    def sum(self, tensor):
        work = dist.all_reduce(tensor, group=self.group, async_op=True)
        self.works.append(work)
        return tensor

    def drain(self):
        for work in self.works:
            work.wait()
        self.works.clear()


class Evaluator:
    def __init__(self, model, metrics):
        self.model = model
        self.metrics = metrics

    @torch.inference_mode()
    def run(self, batches):
        accuracy, loss = [], []
        for x, y in batches:
            logits = self.model(x.cuda(non_blocking=True))
            target = y.cuda(non_blocking=True)
            stats = torch.stack([
                (logits.argmax(-1) == target).sum().float(),
                nn.functional.cross_entropy(logits, target, reduction="sum"),
                torch.tensor(float(target.numel()), device=logits.device),
            ])
            correct, total_loss, count = self.metrics.sum(stats).unbind()
            accuracy.append(correct / count)
            loss.append(total_loss / count)
        self.metrics.drain()
        return torch.stack(accuracy).mean().item(), torch.stack(loss).mean().item()


def main():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 100)).cuda().eval()
    evaluator = Evaluator(model, MetricGroup())
    data = [(torch.randn(256, 512).pin_memory(), torch.randint(100, (256,)).pin_memory())
            for _ in range(50)]
    accuracy, loss = evaluator.run(data)
    if rank == 0:
        print(f"accuracy {accuracy:.4f} loss {loss:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
