"""Track-quality scores of particle tracks with Numba and page-locked output."""
import numpy as np
from numba import cuda


@cuda.jit
def chi_square(hits, fit, sigma, out):
    i = cuda.grid(1)
    if i < hits.shape[0]:
        s = 0.0
        for k in range(hits.shape[1]):
            r = (hits[i, k] - fit[i, 0] - fit[i, 1] * k) / sigma
            s += r * r
        out[i] = s / (hits.shape[1] - 2)


class TrackScorer:
    def __init__(self, tracks, layers, sigma=0.02):
        self.tracks, self.sigma = tracks, sigma
        self.stream = cuda.stream()
        self.hits = cuda.device_array((tracks, layers))
        self.fit = cuda.device_array((tracks, 2))
        self.chi2 = cuda.device_array(tracks)
        self.result = cuda.pinned_array(tracks, dtype=np.float64)

    def good_tracks(self, hits, fit, cut=3.0):
        self.hits.copy_to_device(hits)
        self.fit.copy_to_device(fit)
        with self.stream.auto_synchronize() as s:
            chi_square[(self.tracks + 127) // 128, 128, s](self.hits, self.fit, self.sigma, self.chi2)
            self.chi2.copy_to_host(self.result, stream=s)
            selected = np.flatnonzero(self.result < cut)
        return selected


def events(count, tracks, layers):
    rng = np.random.default_rng(12)
    z = np.arange(layers)
    for _ in range(count):
        fit = rng.normal(size=(tracks, 2))
        noise = rng.normal(scale=0.03, size=(tracks, layers))
        yield fit[:, :1] + fit[:, 1:] * z + noise, fit


def main(tracks=1 << 17, layers=12):
    scorer = TrackScorer(tracks, layers)
    kept = [len(scorer.good_tracks(h, f)) for h, f in events(50, tracks, layers)]
    print(sum(kept))


if __name__ == "__main__":
    main()
