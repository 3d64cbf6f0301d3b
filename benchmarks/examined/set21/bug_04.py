from typing import List, Tuple

import torch
import torch.nn as nn


class CacheAwareEncoder(nn.Module):
    def __init__(self, feat_dim: int, d_model: int, cache_len: int):
        super().__init__()
        self.pre = nn.Linear(feat_dim, d_model)
        self.mix = nn.Linear(2 * d_model, d_model)
        self.cache_len = cache_len

    def forward(self, chunk: torch.Tensor, cache: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        hidden = torch.relu(self.pre(chunk))
        context = cache.mean(dim=1, keepdim=True).expand_as(hidden)
        encoded = self.mix(torch.cat([hidden, context], dim=-1))
        next_cache = torch.cat([cache, hidden], dim=1)[:, -self.cache_len:]
        return encoded, next_cache


class CudaGraphsStreamingEncoderStep:
    """Captures one streaming step of the encoder and replays it for each chunk."""

    def __init__(self, encoder: CacheAwareEncoder, batch: int, chunk_len: int, feat_dim: int, d_model: int):
        self.encoder = encoder
        device = next(encoder.parameters()).device
        self.chunk = torch.zeros(batch, chunk_len, feat_dim, device=device)
        self.cache = torch.zeros(batch, encoder.cache_len, d_model, device=device)
        self.graph = None
        self.encoded = None
        self.next_cache = None

    def _capture(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.encoder(self.chunk, self.cache)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.encoded, self.next_cache = self.encoder(self.chunk, self.cache)

    def reset(self) -> None:
        self.cache.zero_()

    def step(self, chunk: torch.Tensor) -> torch.Tensor:
        if self.graph is None:
            self._capture()
        self.chunk.copy_(chunk)
        self.graph.replay()
        self.cache.copy_(self.next_cache)
        return self.encoded


class StreamingPipeline:
    def __init__(self, encoder: CacheAwareEncoder, decoder: nn.Module, batch: int, chunk_len: int, feat_dim: int, d_model: int):
        self.decoder = decoder
        self.chunk_len = chunk_len
        self.encoder_step = CudaGraphsStreamingEncoderStep(encoder, batch, chunk_len, feat_dim, d_model)

    @torch.inference_mode()
    def transcribe(self, features: torch.Tensor) -> List[List[int]]:
        self.encoder_step.reset()
        encoded_chunks = []
        for chunk in features.split(self.chunk_len, dim=1):
            encoded = self.encoder_step.step(chunk)
            encoded_chunks.append(encoded)
        encoded = torch.cat(encoded_chunks, dim=1)
        return self.decoder(encoded).argmax(dim=-1).tolist()


def main(batch: int = 8, feat_dim: int = 80, d_model: int = 512, chunk_len: int = 16):
    encoder = CacheAwareEncoder(feat_dim, d_model, cache_len=70).cuda().eval()
    decoder = nn.Linear(d_model, 1025).cuda().eval()
    pipeline = StreamingPipeline(encoder, decoder, batch, chunk_len, feat_dim, d_model)
    features = torch.randn(batch, chunk_len * 40, feat_dim, device="cuda")
    return pipeline.transcribe(features)
