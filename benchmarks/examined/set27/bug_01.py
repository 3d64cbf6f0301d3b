import cupy as cp
import torch
import torch.distributed as dist


class WgradStore:
    """FIFO of weight-gradient GEMMs that are run after the data gradients."""

    def __init__(self):
        self._queue = []

    def put(self, fn):
        self._queue.append(fn)

    def drain(self):
        while self._queue:
            self._queue.pop(0)()


def compute_grouped_wgrad(grad_out, inputs, main_grad, stream_handle):
    """dW of all experts, accumulated into ``main_grad``."""
    with cp.cuda.ExternalStream(stream_handle):
        dy = cp.asarray(grad_out)
        x = cp.asarray(inputs)
        dw = cp.asarray(main_grad)
        dw += cp.matmul(dy.swapaxes(1, 2), x)


class GroupedLinear:
    """One weight per expert: (experts, out_features, in_features)."""

    def __init__(self, experts, in_features, out_features, store):
        self.weight = torch.randn(experts, out_features, in_features, device="cuda")
        self.main_grad = torch.zeros_like(self.weight)
        self.store = store
        self.saved_input = None

    def forward(self, x):
        self.saved_input = x
        return torch.bmm(x, self.weight.transpose(1, 2))

    def backward(self, grad_out):
        inputs, self.saved_input = self.saved_input, None
        stream_handle = torch.cuda.current_stream().cuda_stream

        def wgrad():
            compute_grouped_wgrad(grad_out, inputs, self.main_grad, stream_handle)

        self.store.put(wgrad)
        return torch.bmm(grad_out, self.weight)


class MoEBlock:
    def __init__(self, experts, hidden, ffn, group):
        self.store = WgradStore()
        self.fc1 = GroupedLinear(experts, hidden, ffn, self.store)
        self.fc2 = GroupedLinear(experts, ffn, hidden, self.store)
        self.group = group
        self.wgrad_stream = torch.cuda.Stream()
        self.reduce_stream = torch.cuda.Stream()
        self.wgrad_done = torch.cuda.Event()

    def forward(self, x):
        self.act_in = self.fc1.forward(x)
        return self.fc2.forward(torch.relu(self.act_in))

    def backward_dgrad(self, grad):
        grad = self.fc2.backward(grad)
        grad = grad * (self.act_in > 0)
        return self.fc1.backward(grad)

    def backward_wgrad(self):
        self.wgrad_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.wgrad_stream):
            self.store.drain()
            self.wgrad_done.record()

    def reduce_gradients(self):
        self.reduce_stream.wait_event(self.wgrad_done)
        with torch.cuda.stream(self.reduce_stream):
            for layer in (self.fc2, self.fc1):
                dist.all_reduce(layer.main_grad, group=self.group)

    def wait_gradients(self):
        torch.cuda.current_stream().wait_stream(self.reduce_stream)


@torch.no_grad()
def train(blocks, batches, lr):
    for x, grad in batches:
        for block in blocks:
            x = block.forward(x)
        for block in reversed(blocks):
            grad = block.backward_dgrad(grad)
            block.backward_wgrad()
            block.reduce_gradients()
        for block in blocks:
            block.wait_gradients()
            for layer in (block.fc1, block.fc2):
                layer.weight.add_(layer.main_grad, alpha=-lr)
                layer.main_grad.zero_()
