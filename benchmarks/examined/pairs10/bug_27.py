"""Live inference on a shared-memory frame that a camera process would fill."""
from multiprocessing import shared_memory

import numpy as np
import torch
import torch.nn as nn


class SharedFrame:
    """A frame in shared memory, registered with CUDA for fast transfers."""

    def __init__(self, shape):
        size = int(np.prod(shape))
        self.memory = shared_memory.SharedMemory(create=True, size=size)
        self.array = np.ndarray(shape, dtype=np.uint8, buffer=self.memory.buf)
        self.tensor = torch.from_numpy(self.array)
        code = torch.cuda.cudart().cudaHostRegister(self.tensor.data_ptr(), size, 0)
        torch.cuda.check_error(int(code))

    def close(self):
        torch.cuda.cudart().cudaHostUnregister(self.tensor.data_ptr())
        del self.tensor, self.array
        self.memory.close()
        self.memory.unlink()


class Camera:
    def __init__(self, frame, seed=0):
        self.frame = frame
        self.rng = np.random.default_rng(seed)

    def capture(self):
        self.frame.array[...] = self.rng.integers(0, 255, self.frame.array.shape, dtype=np.uint8)


class LiveModel:
    def __init__(self, frame):
        self.frame = frame
        self.net = nn.Sequential(
            nn.Conv2d(3, 32, 7, stride=2), nn.ReLU(), nn.Conv2d(32, 1, 7, stride=2)).cuda().eval()

    @torch.inference_mode()
    def score(self):
        image = self.frame.tensor.to("cuda", non_blocking=True)
        image = image.permute(2, 0, 1).float().div_(255.0)
        return self.net(image.unsqueeze(0)).mean()


def main(frames=120):
    frame = SharedFrame((2160, 3840, 3))
    camera, model = Camera(frame), LiveModel(frame)
    scores = []
    for _ in range(frames):
        camera.capture()
        scores.append(model.score())
    print(torch.stack(scores).cpu().mean().item())
    frame.close()


if __name__ == "__main__":
    main()
