"""Audio batches from DALI, copied into PyTorch tensors ahead of buffer recycling."""
import ctypes

import torch
from nvidia.dali import fn, pipeline_def, types


@pipeline_def
def audio_pipeline(root, length):
    raw, label = fn.readers.file(file_root=root, random_shuffle=True, name="Reader")
    audio, _ = fn.decoders.audio(raw, dtype=types.FLOAT, downmix=True)
    audio = fn.slice(audio, 0, length, axes=[0], out_of_bounds_policy="pad", fill_values=0.0)
    spec = fn.spectrogram(audio.gpu(), nfft=512, window_length=400, window_step=160)
    mel = fn.mel_filter_bank(spec, sample_rate=16000, nfilter=80)
    return fn.to_decibels(mel, cutoff_db=-80), label


class MelLoader:
    def __init__(self, root, batch_size, length=48000, device_id=0, depth=3):
        self.device = torch.device("cuda", device_id)
        self.pipe = audio_pipeline(
            root, length, batch_size=batch_size, num_threads=4,
            device_id=device_id, prefetch_queue_depth=depth,
        )
        self.pipe.build()
        self.read = torch.cuda.Event()
        self.borrowed = False
        for _ in range(depth):
            self.pipe.schedule_run()

    def _give_back(self):
        if self.borrowed:
            self.read.synchronize()
            self.pipe.release_outputs()
            self.pipe.schedule_run()
            self.borrowed = False

    def __iter__(self):
        return self

    def __next__(self):
        self._give_back()
        mel, label = self.pipe.share_outputs()
        self.borrowed = True
        dense = mel.as_tensor()
        stream = torch.cuda.current_stream(self.device)
        batch = torch.empty(dense.shape(), dtype=torch.float32, device=self.device)
        dense.copy_to_external(
            ctypes.c_void_p(batch.data_ptr()),
            cuda_stream=ctypes.c_void_p(stream.cuda_stream),
            non_blocking=True,
        )
        self.read.record(stream)
        target = torch.tensor(label.as_array().reshape(-1).copy(), dtype=torch.int64)
        return batch, target.to(self.device)


def train(model, root, steps, batch_size=32, work_stream=None):
    loader = MelLoader(root, batch_size)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    loss_fn = torch.nn.CrossEntropyLoss()
    work_stream = work_stream or torch.cuda.Stream()
    work_stream.wait_stream(torch.cuda.current_stream())
    total = 0.0
    with torch.cuda.stream(work_stream):
        for _, (mel, target) in zip(range(steps), loader):
            loss = loss_fn(model(mel), target)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.item()
    torch.cuda.current_stream().wait_stream(work_stream)
    return total / max(1, steps)
