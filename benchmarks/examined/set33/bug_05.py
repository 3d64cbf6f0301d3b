"""Beam search over an exported decoder: ONNX Runtime for the network, PyTorch for the search."""
import numpy as np
import onnxruntime as ort
import torch


class OrtDecoder:
    """Decoder with past key/value inputs, bound by device pointers."""

    def __init__(self, path, n_layers, n_heads, head_dim, vocab, device=0):
        self.device = torch.device("cuda", device)
        providers = [("CUDAExecutionProvider", {"device_id": device})]
        self.session = ort.InferenceSession(path, providers=providers)
        self.n_layers, self.n_heads, self.head_dim, self.vocab = n_layers, n_heads, head_dim, vocab

    def _bind_input(self, binding, name, tensor, np_type):
        binding.bind_input(
            name=name,
            device_type="cuda",
            device_id=self.device.index,
            element_type=np_type,
            shape=tuple(tensor.shape),
            buffer_ptr=tensor.data_ptr(),
        )

    def _bind_output(self, binding, name, tensor, np_type):
        binding.bind_output(
            name=name,
            device_type="cuda",
            device_id=self.device.index,
            element_type=np_type,
            shape=tuple(tensor.shape),
            buffer_ptr=tensor.data_ptr(),
        )

    def __call__(self, input_ids, past):
        beams, length = input_ids.shape[0], past[0].shape[2]
        binding = self.session.io_binding()
        self._bind_input(binding, "input_ids", input_ids, np.int64)
        present = []
        for i, p in enumerate(past):
            self._bind_input(binding, f"past_{i}", p, np.float32)
            out = p.new_empty((beams, self.n_heads, length + 1, self.head_dim))
            self._bind_output(binding, f"present_{i}", out, np.float32)
            present.append(out)
        logits = torch.empty((beams, 1, self.vocab), device=self.device)
        self._bind_output(binding, "logits", logits, np.float32)
        self.session.run_with_iobinding(binding)
        return logits[:, -1], present


class BeamSearch:
    def __init__(self, decoder, num_beams, eos_id):
        self.decoder, self.num_beams, self.eos_id = decoder, num_beams, eos_id

    @torch.inference_mode()
    def generate(self, first_id, past, max_len):
        dev = self.decoder.device
        ids = torch.full((self.num_beams, 1), first_id, dtype=torch.int64, device=dev)
        sequences = ids.clone()
        scores = torch.full((self.num_beams,), -1e9, device=dev)
        scores[0] = 0.0
        past = [p.repeat(self.num_beams, 1, 1, 1) for p in past]
        for _ in range(max_len):
            logits, present = self.decoder(ids, past)
            total = scores[:, None] + torch.log_softmax(logits, dim=-1)
            scores, flat = total.view(-1).topk(self.num_beams)
            parent = torch.div(flat, self.decoder.vocab, rounding_mode="floor")
            token = flat % self.decoder.vocab
            if bool((token == self.eos_id).all()):
                break
            sequences = torch.cat([sequences[parent], token[:, None]], dim=1)
            past = [p.index_select(0, parent) for p in present]
            ids = token[:, None].contiguous()
        return sequences[scores.argmax()].tolist()
