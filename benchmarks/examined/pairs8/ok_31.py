import cvcuda
import numpy as np
import torch
import torch.nn as nn


class CvPreprocessor:
    def __init__(self, size=(224, 224)):
        self.size = size

    def __call__(self, frames):
        n, _, _, c = frames.shape
        tensor = cvcuda.as_tensor(frames, "NHWC")
        resized = cvcuda.resize(tensor, (n, *self.size, c), cvcuda.Interp.LINEAR)
        floats = cvcuda.convertto(resized, np.float32, scale=1 / 255)
        out = torch.as_tensor(floats.cuda(), device="cuda")
        return out.permute(0, 3, 1, 2).contiguous()


class ImageClassifier:
    def __init__(self):
        self.cv_stream = cvcuda.Stream()
        self.torch_stream = torch.cuda.ExternalStream(self.cv_stream.handle)
        self.pre = CvPreprocessor()
        self.net = nn.Sequential(
            nn.Conv2d(3, 32, 7, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 1000)
        ).cuda().eval()
        torch.cuda.synchronize()

    @torch.inference_mode()
    def classify(self, batch):
        with self.cv_stream, torch.cuda.stream(self.torch_stream):
            frames = batch.pin_memory().to("cuda", non_blocking=True)
            logits = self.net(self.pre(frames))
            labels = logits.argmax(-1).cpu()
        return labels.tolist()


def main():
    clf = ImageClassifier()
    for _ in range(10):
        images = torch.randint(0, 255, (8, 480, 640, 3), dtype=torch.uint8)
        print(clf.classify(images))


if __name__ == "__main__":
    main()
