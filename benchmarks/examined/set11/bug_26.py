"""Data containers of a reconstruction package: dataclasses of tensors that move as a whole."""
from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Iterator, Tuple

import numpy as np
import torch
from typing_extensions import Self


class Dataclass:
    """Base of data containers; tensors in fields follow ``to``, ``cuda`` and ``cpu``."""

    def _items(self) -> Iterator[Tuple[str, Any]]:
        for field in dataclasses.fields(self):
            yield field.name, getattr(self, field.name)

    def to(self, device=None, dtype=None, *, non_blocking: bool = False, copy: bool = False) -> Self:
        return self._to(device=device, dtype=dtype, non_blocking=non_blocking, copy=copy)

    def cuda(self, device=None, *, non_blocking: bool = False, copy: bool = False) -> Self:
        index = torch.cuda.current_device() if device is None else torch.device(device).index
        return self._to(device=torch.device("cuda", index), non_blocking=non_blocking, copy=copy)

    def cpu(self, *, copy: bool = False) -> Self:
        """Put in CPU memory."""
        return self._to(device=torch.device("cpu"), non_blocking=True, copy=copy)

    def _to(self, device=None, dtype=None, non_blocking: bool = False, copy: bool = False) -> Self:
        new = {}
        for name, data in self._items():
            if isinstance(data, torch.Tensor):
                kind = dtype if data.is_floating_point() or data.is_complex() else None
                new[name] = data.to(device, kind, non_blocking=non_blocking, copy=copy)
            elif isinstance(data, Dataclass):
                new[name] = data._to(device, dtype, non_blocking, copy)
            else:
                new[name] = data
        return dataclasses.replace(self, **new)


@dataclasses.dataclass
class IHeader(Dataclass):
    te: torch.Tensor
    resolution: torch.Tensor


@dataclasses.dataclass
class IData(Dataclass):
    data: torch.Tensor
    header: IHeader

    def rss(self) -> torch.Tensor:
        return self.data.abs().square().sum(-4).sqrt()


@dataclasses.dataclass
class KData(Dataclass):
    data: torch.Tensor
    header: IHeader


class DirectReconstruction(torch.nn.Module):
    def __init__(self, dcf: torch.Tensor, csm: torch.Tensor):
        super().__init__()
        self.register_buffer("dcf", dcf)
        self.register_buffer("csm", csm)

    def forward(self, kdata: KData) -> IData:
        img = torch.fft.ifftn(kdata.data * self.dcf, dim=(-3, -2, -1), norm="ortho")
        return IData(data=(img * self.csm.conj()).sum(-4, keepdim=True), header=kdata.header)


def save_series(path: Path, image: IData) -> None:
    np.savez(path, data=image.data.numpy(), te=image.header.te.numpy())


def reconstruct_all(reconstruction: DirectReconstruction, scans, out_dir: Path) -> None:
    reconstruction = reconstruction.cuda()
    for name, kdata in scans:
        image = reconstruction(kdata.cuda())
        save_series(out_dir / f"{name}.npz", image.cpu())
