import numpy as np

from rig import Rig


def signal(n, freq, rate=48000.0):
    t = np.arange(n, dtype=np.float32) / rate
    return np.sin(2 * np.pi * freq * t).astype(np.float32)


def crest(block):
    rms = np.sqrt(np.mean(block * block, axis=1))
    return np.abs(block).max(axis=1) / np.maximum(rms, 1e-9)


def sweep(rig, wave, gains):
    rig.src[:] = wave
    rig.upload()
    for row, gain in enumerate(gains):
        rig.launch(gain)
        rig.download(row)
    rig.finish()
    return crest(rig.dst)


def main(n=1 << 22):
    gains = np.linspace(0.5, 8.0, 12)
    rig = Rig(n, len(gains))
    for freq in (110.0, 440.0, 1760.0):
        print(freq, sweep(rig, signal(n, freq), gains).round(3))


if __name__ == "__main__":
    main()
