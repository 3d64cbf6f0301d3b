"""ONNX Runtime session that computes on a torch stream."""
import numpy as np
import onnxruntime as ort
import torch


class OrtRunner:
    def __init__(self, path, device=0):
        self.device = torch.device("cuda", device)
        self.stream = torch.cuda.Stream(self.device)
        options = {
            "device_id": device,
            "user_compute_stream": str(self.stream.cuda_stream),
        }
        self.session = ort.InferenceSession(
            path, providers=[("CUDAExecutionProvider", options)])
        self.input = self.session.get_inputs()[0].name
        self.output = self.session.get_outputs()[0].name
        self.features = self.session.get_outputs()[0].shape[-1]

    def _bind(self, x, y):
        io = self.session.io_binding()
        for bind, name, t in ((io.bind_input, self.input, x), (io.bind_output, self.output, y)):
            bind(name, "cuda", self.device.index, np.float32, tuple(t.shape), t.data_ptr())
        return io

    def __call__(self, x):
        caller = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(caller)
        x.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            x = x.float().contiguous()
            y = torch.empty(x.shape[0], self.features, device=self.device)
            self.session.run_with_iobinding(self._bind(x, y))
            y = torch.nn.functional.normalize(y, dim=-1)
        y.record_stream(caller)
        caller.wait_stream(self.stream)
        return y


def search(runner, queries, corpus, k=5):
    emb = torch.cat([runner(chunk) for chunk in corpus.split(256)])
    scores = runner(queries) @ emb.T
    return scores.topk(k).indices.tolist()


if __name__ == "__main__":
    import sys

    runner = OrtRunner(sys.argv[1])
    corpus = torch.randn(4096, 3, 64, 64, device="cuda")
    queries = corpus[:8] + 0.1 * torch.randn(8, 3, 64, 64, device="cuda")
    print(search(runner, queries, corpus))
