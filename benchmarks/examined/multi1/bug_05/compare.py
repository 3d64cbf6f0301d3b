import argparse

import torch

from extract import Encoder, extract_stats, frechet, reference_stats


def batches(count, rows, width, shift=0.0):
    return [torch.randn(rows, width, device="cuda") + shift for _ in range(count)]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rows", type=int, default=4096)
    ap.add_argument("--width", type=int, default=512)
    ap.add_argument("--dim", type=int, default=2048)
    args = ap.parse_args()
    encoder = Encoder(args.width, args.dim).to("cuda").eval()
    real = batches(4, args.rows, args.width)
    fake = batches(16, args.rows, args.width, shift=0.1)
    ref = reference_stats(encoder, real, args.dim)
    got = extract_stats(encoder, fake, args.dim)
    print(f"distance {frechet(ref, got):.4f}")


if __name__ == "__main__":
    main()
