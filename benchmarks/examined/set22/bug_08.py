"""Multimodal prefetch: the vision encoder of upcoming requests runs on a side stream."""
from collections import deque

import torch


class MMRequest:
    def __init__(self, req_id, token_ids, pixels, image_mask):
        self.req_id = req_id
        self.token_ids = token_ids
        self.pixels = pixels
        self.image_mask = image_mask
        self.embedding = None
        self.encoder_event = None


class EncoderPrefetcher:
    def __init__(self, encoder, device, max_in_flight=8):
        self.encoder = encoder
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.max_in_flight = max_in_flight

    @torch.inference_mode()
    def dispatch(self, requests):
        todo = [r for r in requests if r.pixels is not None and r.embedding is None]
        todo = todo[: self.max_in_flight]
        if not todo:
            return
        with torch.cuda.stream(self.stream):
            pixels = torch.cat([r.pixels.to(self.device, non_blocking=True) for r in todo])
            features = self.encoder(pixels)
            event = torch.cuda.Event()
            event.record(self.stream)
        for row, r in zip(features, todo):
            r.embedding = row
            r.encoder_event = event


class Engine:
    def __init__(self, embed_tokens, llm, encoder, device):
        self.embed_tokens = embed_tokens
        self.llm = llm
        self.device = device
        self.prefetcher = EncoderPrefetcher(encoder, device)
        self.waiting = deque()

    def submit(self, request):
        self.waiting.append(request)

    def _wait_for_encoder(self, batch):
        pending = [r for r in batch if r.encoder_event is not None]
        if not pending:
            return
        stream = torch.cuda.current_stream(self.device)
        stream.wait_event(pending[0].encoder_event)
        for r in pending:
            r.encoder_event = None

    def _inputs(self, batch):
        ids = torch.cat([r.token_ids for r in batch]).to(self.device)
        x = self.embed_tokens(ids)
        current = torch.cuda.current_stream(self.device)
        offset = 0
        for r in batch:
            n = r.token_ids.numel()
            if r.embedding is not None:
                mask = r.image_mask.to(self.device)
                r.embedding.record_stream(current)
                x[offset:offset + n].masked_scatter_(mask[:, None], r.embedding)
            offset += n
        return x

    @torch.inference_mode()
    def step(self, max_batch):
        batch = [self.waiting.popleft() for _ in range(min(max_batch, len(self.waiting)))]
        self.prefetcher.dispatch([r for r in batch] + list(self.waiting)[:4])
        if not batch:
            return None
        self._wait_for_encoder(batch)
        logits = self.llm(self._inputs(batch))
        return logits.argmax(-1).tolist()
