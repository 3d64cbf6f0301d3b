from typing import List, Optional

import torch


class EncoderFeatureStager:
    """Grows a pinned staging tensor for ragged encoder features and uploads it on a copy stream."""

    def __init__(self, feature_dim: int, device="cuda", dtype=torch.float16):
        self.feature_dim = feature_dim
        self.device = torch.device(device)
        self.dtype = dtype
        self._encoder_feature_staging: Optional[torch.Tensor] = None
        self._encoder_feature_staging_event: Optional[torch.cuda.Event] = None
        self._encoder_feature_copy_stream: Optional[torch.cuda.Stream] = None

    def _acquire_staging(self, rows: int) -> torch.Tensor:
        staging = self._encoder_feature_staging
        if staging is None or staging.shape[0] < rows:
            staging = torch.empty((rows, self.feature_dim), dtype=self.dtype, pin_memory=True)
            self._encoder_feature_staging = staging
            self._encoder_feature_staging_event = torch.cuda.Event()
            if self._encoder_feature_copy_stream is None:
                self._encoder_feature_copy_stream = torch.cuda.Stream(self.device)
        else:
            # The previous batch's H2D from this buffer must be complete
            # before its rows are overwritten.
            self._encoder_feature_staging_event.synchronize()
        return staging

    def stage(self, features: List[torch.Tensor]) -> torch.Tensor:
        rows = sum(f.shape[0] for f in features)
        staging = self._acquire_staging(rows)
        offset = 0
        for feature in features:
            staging[offset : offset + feature.shape[0]].copy_(feature)
            offset += feature.shape[0]

        current_stream = torch.cuda.current_stream(self.device)
        packed = torch.empty((rows, self.feature_dim), dtype=self.dtype, device=self.device)
        copy_stream = self._encoder_feature_copy_stream
        copy_stream.wait_stream(current_stream)
        with torch.cuda.stream(copy_stream):
            packed.copy_(staging[:rows], non_blocking=True)
            self._encoder_feature_staging_event.record(copy_stream)
        packed.record_stream(copy_stream)
        current_stream.wait_event(self._encoder_feature_staging_event)
        return packed


class EncoderEngine:
    def __init__(self, encoder: torch.nn.Module, feature_dim: int):
        self.encoder = encoder
        self.stager = EncoderFeatureStager(feature_dim)

    @torch.inference_mode()
    def forward_batch(self, features: List[torch.Tensor]) -> List[torch.Tensor]:
        packed = self.stager.stage(features)
        hidden = self.encoder(packed)
        return list(hidden.split([f.shape[0] for f in features]))

    def run(self, batches):
        return [self.forward_batch(features) for features in batches]
