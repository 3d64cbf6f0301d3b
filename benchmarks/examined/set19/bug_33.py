"""Graph runner for decode steps: parameter buffers, capture, replay, host tokens."""
import torch
from torch import nn


class DeviceGraphRunner:
    """Captures a callable once and replays it with refreshed parameter buffers."""

    def __init__(self, fn, example_args):
        self._fn = fn
        self._stream = torch.cuda.Stream()
        self._graph = torch.cuda.CUDAGraph()
        self._param_buffers = [torch.empty_like(arg) for arg in example_args]
        self._output = None
        self._host_output = None

    def _copy_to_param_buffer(self, *args):
        for buffer, arg in zip(self._param_buffers, args):
            if buffer.shape != arg.shape or buffer.dtype != arg.dtype:
                return False
            buffer.copy_(arg, non_blocking=True)
        return True

    def capture(self, *args, warmup=2):
        assert self._copy_to_param_buffer(*args)
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for _ in range(warmup):
                self._fn(*self._param_buffers)
        self._stream.synchronize()
        with torch.cuda.graph(self._graph, stream=self._stream):
            self._output = self._fn(*self._param_buffers)
        self._host_output = torch.empty(self._output.shape, dtype=self._output.dtype,
                                        pin_memory=True)

    def forward(self, *args):
        assert self._copy_to_param_buffer(*args)
        self._graph.replay()
        self._host_output.copy_(self._output, non_blocking=True)
        self._stream.synchronize()
        return self._host_output


class TinyDecoder(nn.Module):
    def __init__(self, vocab, width, layers):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, tokens, state):
        h = self.embed(tokens) + state
        for layer in self.layers:
            h = h + torch.nn.functional.silu(layer(h))
        state.copy_(h)
        return self.head(h).argmax(dim=-1)


class GreedyGenerator:
    def __init__(self, model, batch, width):
        self.model = model
        self.state = torch.zeros(batch, width, device="cuda")
        tokens = torch.zeros(batch, dtype=torch.long, device="cuda")
        self.runner = DeviceGraphRunner(self._step, [tokens])
        self.runner.capture(tokens)
        self.state.zero_()

    def _step(self, tokens):
        return self.model(tokens, self.state)

    def generate(self, prompt, steps, eos):
        tokens = prompt
        sequences = [[] for _ in range(prompt.shape[0])]
        for _ in range(steps):
            out = self.runner.forward(tokens.cuda())
            ids = out.tolist()
            for sequence, token in zip(sequences, ids):
                if not sequence or sequence[-1] != eos:
                    sequence.append(token)
            tokens = torch.tensor(ids)
        return sequences


@torch.no_grad()
def main():
    torch.manual_seed(0)
    model = TinyDecoder(32000, 2048, 24).cuda().eval()
    generator = GreedyGenerator(model, batch=16, width=2048)
    prompt = torch.randint(0, 32000, (16,))
    print(generator.generate(prompt, steps=64, eos=2)[0])


if __name__ == "__main__":
    main()
