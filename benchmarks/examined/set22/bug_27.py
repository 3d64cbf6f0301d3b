"""Token generation: CUDA sampling between runs of a decoder session with bound buffers."""
import cupy as cp
import numpy as np
import onnxruntime as ort


class DeviceSampler:
    def __init__(self, batch, vocab, stream):
        self.stream = stream
        self.noise = cp.random.RandomState(11)
        with stream:
            self.scaled = cp.empty((batch, vocab), cp.float32)

    def sample(self, logits, temperature, out):
        with self.stream:
            cp.multiply(logits, 1.0 / temperature, out=self.scaled)
            self.scaled -= cp.log(-cp.log(self.noise.uniform(1e-6, 1.0, logits.shape)))
            out[:, 0] = cp.argmax(self.scaled, axis=1)


class Generator:
    def __init__(self, path, batch, vocab):
        opts = {"device_id": 0, "arena_extend_strategy": "kSameAsRequested"}
        self.session = ort.InferenceSession(
            path, providers=[("CUDAExecutionProvider", opts)])
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.sampler = DeviceSampler(batch, vocab, self.stream)
        with self.stream:
            self.next_tokens = cp.zeros((batch, 1), cp.int64)
            self.logits = cp.zeros((batch, vocab), cp.float32)
        self.stream.synchronize()
        self.binding = self.session.io_binding()
        self.binding.bind_input(
            "input_ids", "cuda", 0, np.int64, self.next_tokens.shape, self.next_tokens.data.ptr)
        self.binding.bind_output(
            "logits", "cuda", 0, np.float32, self.logits.shape, self.logits.data.ptr)

    def generate_next_token(self, temperature):
        self.session.run_with_iobinding(self.binding)
        self.binding.synchronize_outputs()
        self.sampler.sample(self.logits, temperature, self.next_tokens)

    def tokens(self):
        return self.next_tokens.get(stream=self.stream)


def main():
    gen = Generator("decoder.onnx", batch=4, vocab=32000)
    for _ in range(64):
        gen.generate_next_token(0.8)
    print(gen.tokens().ravel())


if __name__ == "__main__":
    main()
