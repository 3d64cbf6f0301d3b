"""Two model halves on two streams of one device; micro batches flow through both."""
import torch
import torch.nn as nn


class Stage:
    def __init__(self, name, module, optimizer_cls, **kwargs):
        self.name = name
        self.module = module
        self.stream = torch.cuda.Stream()
        self.optimizer = optimizer_cls(module.parameters(), **kwargs)


class MicroBatchPipeline:
    def __init__(self, first, second):
        self.first, self.second = first, second
        self.done = {}
        for stage in (first, second):
            stage.stream.wait_stream(torch.cuda.current_stream())

    def _record(self, stage, kind, index):
        self.done[stage.name, kind, index] = stage.stream.record_event()

    def _await(self, stage, other, kind, index):
        stage.stream.wait_event(self.done.pop((other.name, kind, index)))

    def step(self, micro_batches, targets):
        first, second = self.first, self.second
        outputs, grads = [], []
        for stage in (first, second):
            stage.stream.wait_stream(torch.cuda.current_stream())
        for i, x in enumerate(micro_batches):
            with torch.cuda.stream(first.stream):
                outputs.append(first.module(x))
                self._record(first, "fwd", i)
        for i, (out, y) in enumerate(zip(outputs, targets)):
            with torch.cuda.stream(second.stream):
                self._await(second, first, "fwd", i)
                leaf = out.detach().requires_grad_()
                loss = (second.module(leaf) - y).square().mean() / len(micro_batches)
                loss.backward()
                grads.append(leaf.grad)
                self._record(second, "bwd", i)
        for i, (out, grad) in enumerate(zip(outputs, grads)):
            with torch.cuda.stream(first.stream):
                self._await(first, second, "bwd", i)
                out.backward(grad)
        for stage in (first, second):
            with torch.cuda.stream(stage.stream):
                stage.optimizer.step()
                stage.optimizer.zero_grad(set_to_none=True)
        for stage in (first, second):
            torch.cuda.current_stream().wait_stream(stage.stream)


def main():
    halves = [nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).cuda() for _ in range(2)]
    pipeline = MicroBatchPipeline(*(Stage(f"s{i}", m, torch.optim.SGD, lr=0.01) for i, m in enumerate(halves)))
    for _ in range(300):
        x = torch.randn(1024, 512, device="cuda")
        pipeline.step(x.chunk(8), x.flip(1).chunk(8))
    torch.cuda.synchronize()
    torch.save([h.state_dict() for h in halves], "halves.pt")


if __name__ == "__main__":
    main()
