"""Everything around an ONNX Runtime session stays on the session's compute stream."""
import sys

import numpy as np
import onnxruntime as ort
import torch


class StreamSession:
    def __init__(self, path, in_shape, out_shape):
        self.stream = torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            self.x = torch.zeros(in_shape, device="cuda")
            self.y = torch.zeros(out_shape, device="cuda")
        opts = {"user_compute_stream": str(self.stream.cuda_stream)}
        self.session = ort.InferenceSession(path, providers=[("CUDAExecutionProvider", opts)])
        self.run_options = ort.RunOptions()
        self.run_options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        self.binding = self.session.io_binding()
        self._bind(self.binding.bind_input, self.session.get_inputs()[0].name, self.x)
        self._bind(self.binding.bind_output, self.session.get_outputs()[0].name, self.y)

    @staticmethod
    def _bind(fn, name, t):
        fn(name=name, device_type="cuda", device_id=0, element_type=np.float32,
           shape=tuple(t.shape), buffer_ptr=t.data_ptr())

    def run(self):
        self.session.run_with_iobinding(self.binding, self.run_options)
        return self.y


class Classifier:
    """Normalises, runs the network and averages over flips."""

    def __init__(self, path, batch, size, classes):
        self.net = StreamSession(path, (batch, 3, size, size), (batch, classes))
        with torch.cuda.stream(self.net.stream):
            self.mean = torch.tensor([0.485, 0.456, 0.406], device="cuda").view(1, 3, 1, 1)
            self.std = torch.tensor([0.229, 0.224, 0.225], device="cuda").view(1, 3, 1, 1)
        self.host = torch.empty(batch, classes, pin_memory=True)

    def _views(self, img):
        yield img
        yield img.flip(3)

    def __call__(self, batch):
        with torch.cuda.stream(self.net.stream):
            img = batch.cuda(non_blocking=True).float().div_(255.0)
            img = (img - self.mean) / self.std
            total = None
            for view in self._views(img):
                self.net.x.copy_(view)
                p = self.net.run().softmax(dim=1)
                total = p if total is None else total + p
            self.host.copy_(total / 2, non_blocking=True)
        self.net.stream.synchronize()
        return self.host.numpy().copy()


def main(path, batch=16, size=224, classes=1000):
    clf = Classifier(path, batch, size, classes)
    rng = np.random.default_rng(0)
    votes = np.zeros(classes)
    for _ in range(20):
        raw = torch.from_numpy(rng.integers(0, 256, (batch, 3, size, size), dtype=np.uint8))
        probs = clf(raw.pin_memory())
        votes += np.bincount(probs.argmax(axis=1), minlength=classes)
    top = votes.argsort()[::-1][:5]
    print(dict(zip(top.tolist(), votes[top].tolist())))


if __name__ == "__main__":
    main(sys.argv[1])
