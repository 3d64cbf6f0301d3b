import numpy as np
import onnxruntime as ort
import torch


class OrtEncoder:
    """Sentence encoder on the CUDA execution provider with zero-copy inputs."""

    def __init__(self, path, dim=384, device_id=0):
        self.session = ort.InferenceSession(path, providers=[("CUDAExecutionProvider", {"device_id": device_id})])
        self.device_id = device_id
        self.dim = dim

    def _bind(self, ids, mask, out):
        binding = self.session.io_binding()
        for name, tensor in (("input_ids", ids), ("attention_mask", mask)):
            binding.bind_input(name, "cuda", self.device_id, np.int64, tuple(tensor.shape), tensor.data_ptr())
        binding.bind_output("embedding", "cuda", self.device_id, np.float32, tuple(out.shape), out.data_ptr())
        return binding

    def encode(self, ids):
        ids = ids.contiguous()
        mask = (ids != 0).long()
        out = torch.empty(ids.shape[0], self.dim, device="cuda")
        binding = self._bind(ids, mask, out)
        torch.cuda.current_stream().synchronize()
        self.session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        return torch.nn.functional.normalize(out, dim=-1)


def main():
    enc = OrtEncoder("minilm.onnx")
    corpus = [torch.randint(0, 30000, (32, 128), device="cuda") for _ in range(10)]
    index = torch.cat([enc.encode(c) for c in corpus])
    query = enc.encode(torch.randint(0, 30000, (1, 128), device="cuda"))
    print((index @ query.T).squeeze(-1).topk(5).indices.tolist())


if __name__ == "__main__":
    main()
