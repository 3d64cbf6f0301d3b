"""Whisper transcription with a TensorRT audio encoder and a torch text decoder."""
from dataclasses import dataclass

import numpy as np
import tensorrt as trt
import torch
import torch.nn.functional as F

SAMPLE_RATE = 16000
N_FFT, HOP, N_MELS, N_SAMPLES = 400, 160, 80, 30 * SAMPLE_RATE


@dataclass
class Dims:
    n_audio_ctx: int = 1500
    n_audio_state: int = 768
    n_text_ctx: int = 448


class AudioEncoderTRT:
    def __init__(self, engine_path, dims):
        logger = trt.Logger(trt.Logger.WARNING)
        with open(engine_path, "rb") as f:
            self.engine = trt.Runtime(logger).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.dims = dims

    def __call__(self, mel):
        out = torch.empty(
            (mel.shape[0], self.dims.n_audio_ctx, self.dims.n_audio_state),
            dtype=torch.float16, device=mel.device,
        )
        self.context.set_input_shape("mel", tuple(mel.shape))
        self.context.set_tensor_address("mel", mel.data_ptr())
        self.context.set_tensor_address("audio_features", out.data_ptr())
        self.context.execute_async_v3(torch.cuda.current_stream().cuda_stream)
        return out


class WhisperTRT:
    def __init__(self, encoder, text_decoder, mel_filters, dims, sot, eot):
        self.encoder = encoder
        self.text_decoder = text_decoder
        self.dims = dims
        self.sot = sot
        self.eot = eot
        self.stream = torch.cuda.Stream()
        self.mel_filters = torch.from_numpy(mel_filters).cuda()
        self.window = torch.hann_window(N_FFT, device="cuda")

    def _audio_to_mel(self, audio):
        samples = torch.from_numpy(np.asarray(audio, dtype=np.float32))
        samples = F.pad(samples, (0, max(0, N_SAMPLES - samples.numel())))[:N_SAMPLES]
        samples = samples.pin_memory().cuda(non_blocking=True)
        stft = torch.stft(samples, N_FFT, HOP, window=self.window, return_complex=True)
        magnitudes = stft[..., :-1].abs() ** 2
        log_spec = torch.clamp(self.mel_filters @ magnitudes, min=1e-10).log10()
        log_spec = torch.maximum(log_spec, log_spec.max() - 8.0)
        return ((log_spec + 4.0) / 4.0).unsqueeze(0).half().contiguous()

    @torch.inference_mode()
    def _decode_mel(self, mel, prompt):
        with torch.cuda.stream(self.stream):
            features = self.encoder(mel)
            tokens = torch.tensor([[self.sot, *prompt]], device=mel.device)
            while tokens.shape[1] < self.dims.n_text_ctx:
                logits = self.text_decoder(tokens, features)
                nxt = logits[:, -1].argmax(dim=-1, keepdim=True)
                tokens = torch.cat([tokens, nxt], dim=1)
                if nxt.item() == self.eot:
                    break
            return tokens[0, 1 + len(prompt):].tolist()

    @torch.inference_mode()
    def transcribe(self, audio, prompt=()):
        mel = self._audio_to_mel(audio)
        return self._decode_mel(mel, list(prompt))


def serve(model, audio_queue, tokenizer, on_text):
    """Transcribe utterances one after another as the satellite sends them."""
    context = []
    while True:
        audio = audio_queue.get()
        if audio is None:
            break
        ids = model.transcribe(audio, prompt=context[-64:])
        context.extend(ids)
        on_text(tokenizer.decode(ids))
