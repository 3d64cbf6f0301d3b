import torch


class GraphedForwardBackward:
    """Forward and backward of one microbatch as a CUDA graph.

    The gradients are accumulated into the existing ``.grad`` tensors.
    """

    def __init__(self, model, loss_fn, num_warmup_steps=2):
        self.model = model
        self.loss_fn = loss_fn
        self.num_warmup_steps = num_warmup_steps
        self.stream = torch.cuda.Stream()
        self.graph = None
        self.static_inputs = None
        self.static_labels = None
        self.static_loss = None
        self.steps = 0

    def _eager(self, inputs, labels):
        loss = self.loss_fn(self.model(inputs), labels)
        loss.backward()
        return loss.detach()

    def _capture(self, inputs, labels):
        self.static_inputs = torch.empty_like(inputs)
        self.static_labels = torch.empty_like(labels)
        saved = [p.grad.clone() for p in self.model.parameters()]
        self.static_inputs.copy_(inputs)
        self.static_labels.copy_(labels)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.static_loss = self._eager(self.static_inputs, self.static_labels)
        with torch.no_grad():
            for p, grad in zip(self.model.parameters(), saved):
                p.grad.copy_(grad)

    def __call__(self, inputs, labels):
        current = torch.cuda.current_stream()
        if self.steps < self.num_warmup_steps:
            self.stream.wait_stream(current)
            with torch.cuda.stream(self.stream):
                loss = self._eager(inputs, labels)
            inputs.record_stream(self.stream)
            labels.record_stream(self.stream)
            loss.record_stream(current)
            current.wait_stream(self.stream)
            return loss
        if self.graph is None:
            self._capture(inputs, labels)
        self.static_inputs.copy_(inputs)
        self.static_labels.copy_(labels)
        self.graph.replay()
        return self.static_loss.clone()

    def end_step(self):
        self.steps += 1


class Trainer:
    def __init__(self, model, loss_fn, lr, accumulate):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        self.forward_backward = GraphedForwardBackward(model, loss_fn)
        self.accumulate = accumulate

    def step(self, microbatches):
        losses = []
        for inputs, labels in microbatches:
            inputs = inputs.pin_memory().to("cuda", non_blocking=True)
            labels = labels.pin_memory().to("cuda", non_blocking=True)
            losses.append(self.forward_backward(inputs, labels))
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        self.forward_backward.end_step()
        return torch.stack(losses).mean()


def train(loader, vocab, hidden, depth, accumulate=4, steps=1000):
    body = [torch.nn.Sequential(torch.nn.Linear(hidden, hidden), torch.nn.GELU()) for _ in range(depth)]
    model = torch.nn.Sequential(torch.nn.Embedding(vocab, hidden), *body, torch.nn.Linear(hidden, vocab))
    model.cuda()

    def loss_fn(logits, labels):
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()) / accumulate

    trainer = Trainer(model, loss_fn, 3e-4, accumulate)
    batches = iter(loader)
    for step in range(steps):
        loss = trainer.step([next(batches) for _ in range(accumulate)])
        if step % 50 == 0:
            print(step, loss.item() * accumulate)
