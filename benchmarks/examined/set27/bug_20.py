import torch
import torch.distributed as dist
import torch.nn.functional as F


class ShardedWeight:
    """A weight that is split by rows over the group and gathered for its use."""

    def __init__(self, out_features, in_features, group):
        self.group = group
        world = dist.get_world_size(group)
        self.shape = (out_features, in_features)
        self.shard = torch.randn(
            out_features // world, in_features, dtype=torch.bfloat16, device="cuda"
        )
        self.full = None
        self.handle = None

    def start_gather(self):
        if self.handle is None:
            self.full = torch.empty(self.shape, dtype=torch.bfloat16, device="cuda")
            self.handle = dist.all_gather_into_tensor(
                self.full, self.shard, group=self.group, async_op=True
            )

    def finish_gather(self):
        self.start_gather()
        self.handle.wait()
        self.handle = None
        full, self.full = self.full, None
        return full


class Layer:
    def __init__(self, hidden, ffn, group):
        self.up = ShardedWeight(ffn, hidden, group)
        self.down = ShardedWeight(hidden, ffn, group)

    def weights(self):
        return (self.up, self.down)

    def start_gather(self):
        for weight in self.weights():
            weight.start_gather()

    def forward(self, x, up, down):
        return x + F.linear(F.gelu(F.linear(x, up)), down)


class GatherAheadModel:
    """Runs the layers on a compute stream; the weights of the next layer are gathered meanwhile."""

    def __init__(self, depth, hidden, ffn, group):
        self.layers = [Layer(hidden, ffn, group) for _ in range(depth)]
        self.compute_stream = torch.cuda.Stream(priority=-1)

    @torch.no_grad()
    def forward(self, x):
        outer = torch.cuda.current_stream()
        self.compute_stream.wait_stream(outer)
        x.record_stream(self.compute_stream)
        self.layers[0].start_gather()
        for i, layer in enumerate(self.layers):
            up, down = (w.finish_gather() for w in layer.weights())
            if i + 1 < len(self.layers):
                self.layers[i + 1].start_gather()
            up.record_stream(self.compute_stream)
            down.record_stream(self.compute_stream)
            with torch.cuda.stream(self.compute_stream):
                x = layer.forward(x, up, down)
        outer.wait_stream(self.compute_stream)
        x.record_stream(outer)
        return x


class Evaluator:
    def __init__(self, model, head, group):
        self.model = model
        self.head = head
        self.group = group

    @torch.no_grad()
    def run(self, loader):
        correct = torch.zeros((), device="cuda")
        total = 0
        for x, y in loader:
            x = x.pin_memory().to("cuda", torch.bfloat16, non_blocking=True)
            logits = self.head(self.model.forward(x))
            correct += (logits.argmax(dim=-1) == y.cuda()).sum()
            total += y.numel()
        dist.all_reduce(correct, group=self.group)
        return correct.item() / (total * dist.get_world_size(self.group))
