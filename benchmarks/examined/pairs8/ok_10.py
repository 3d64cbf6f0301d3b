import functools

import numpy as np
import onnxruntime as ort
import torch


def on_stream(fn):
    """Run a method with the session's stream current."""

    @functools.wraps(fn)
    def wrapper(self, *args, **kwargs):
        with torch.cuda.stream(self.stream):
            return fn(self, *args, **kwargs)

    return wrapper


class SpeechEncoder:
    def __init__(self, path):
        self.stream = torch.cuda.Stream()
        self.sess = ort.InferenceSession(
            path,
            providers=[("CUDAExecutionProvider", {"user_compute_stream": str(self.stream.cuda_stream)})],
        )

    @on_stream
    def features(self, wav):
        dev = torch.from_numpy(wav).to("cuda")
        frames = dev.unfold(0, 400, 160) * torch.hann_window(400, device="cuda")
        return torch.fft.rfft(frames, n=512).abs().square().clamp_min_(1e-10).log_()

    @on_stream
    def transcribe(self, wav):
        feats = self.features(wav).contiguous()
        out = torch.empty(feats.shape[0], 64, device="cuda")
        io = self.sess.io_binding()
        io.bind_input("feats", "cuda", 0, np.float32, tuple(feats.shape), feats.data_ptr())
        io.bind_output("logits", "cuda", 0, np.float32, tuple(out.shape), out.data_ptr())
        self.sess.run_with_iobinding(io)
        return out.argmax(-1).cpu().numpy()


def main():
    enc = SpeechEncoder("asr_encoder.onnx")
    for seconds in (1, 2, 5):
        wav = np.random.randn(16000 * seconds).astype(np.float32)
        print(seconds, enc.transcribe(wav)[:10])


if __name__ == "__main__":
    main()
