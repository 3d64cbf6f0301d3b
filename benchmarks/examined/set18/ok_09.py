"""Whisper token loop on a TensorRT step engine, replayed from a CUDA graph."""
import tensorrt as trt
import torch


class StepEngine:
    """A decoder step with a fixed-capacity key/value cache and a mask over the unused tail."""

    def __init__(self, engine_path, capacity, layers, heads, head_dim, vocab):
        logger = trt.Logger(trt.Logger.WARNING)
        with open(engine_path, "rb") as f:
            self.engine = trt.Runtime(logger).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.capacity = capacity
        dev = torch.device("cuda", torch.cuda.current_device())
        kv = (layers, 2, 1, heads, capacity, head_dim)
        self.token = torch.zeros((1, 1), dtype=torch.int64, device=dev)
        self.position = torch.zeros(1, dtype=torch.int64, device=dev)
        self.mask = torch.full((1, capacity), float("-inf"), dtype=torch.float16, device=dev)
        self.cache = torch.zeros(kv, dtype=torch.float16, device=dev)
        self.new_kv = torch.zeros(kv[:4] + (1, head_dim), dtype=torch.float16, device=dev)
        self.logits = torch.zeros((1, vocab), dtype=torch.float32, device=dev)
        self.features = torch.zeros((1, 1500, heads * head_dim), dtype=torch.float16, device=dev)
        for name in ("token", "position", "mask", "cache", "new_kv", "logits", "features"):
            self.context.set_tensor_address(name, getattr(self, name).data_ptr())


class GraphDecoder:
    def __init__(self, step):
        self.step = step
        self.stream = torch.cuda.Stream()
        self.graph = None

    def _advance(self):
        """Engine step plus the bookkeeping for the next one; everything stays on the device."""
        s = self.step
        s.mask.index_fill_(1, s.position, 0.0)
        s.context.execute_async_v3(torch.cuda.current_stream().cuda_stream)
        s.cache.index_copy_(4, s.position, s.new_kv)
        s.token.copy_(s.logits.argmax(dim=-1, keepdim=True))
        s.position.add_(1)

    def _reset(self, sot, features):
        s = self.step
        s.features.copy_(features)
        s.cache.zero_()
        s.mask.fill_(float("-inf"))
        s.position.zero_()
        s.token.fill_(sot)

    def _capture(self):
        for _ in range(3):
            self._advance()
        self.stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self._advance()

    @torch.inference_mode()
    def decode(self, features, sot, eot, max_tokens=224):
        self.stream.wait_stream(torch.cuda.current_stream())
        features.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            if self.graph is None:
                self._reset(sot, features)
                self._capture()
            self._reset(sot, features)
            out = []
            for _ in range(max_tokens):
                self.graph.replay()
                token = self.step.token.item()
                if token == eot:
                    break
                out.append(token)
        torch.cuda.current_stream().wait_stream(self.stream)
        return out


class Transcriber:
    def __init__(self, encoder, decoder, tokenizer):
        self.encoder = encoder
        self.decoder = decoder
        self.tokenizer = tokenizer

    @torch.inference_mode()
    def __call__(self, mel):
        features = self.encoder(mel.pin_memory().to("cuda", torch.float16, non_blocking=True))
        ids = self.decoder.decode(features, self.tokenizer.sot, self.tokenizer.eot)
        return self.tokenizer.decode(ids)
