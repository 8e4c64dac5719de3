from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from export.calibration import open_samples
from export.errors import ConversionError
from tests.export.conftest import make_contract, make_samples


def _saved(folder: Path, samples: np.ndarray) -> str:
    np.save(folder / "samples.npy", samples)
    return str(folder / "samples.npy")


def test_good_samples_stay_on_disk_until_they_are_read(tmp_path: Path) -> None:
    samples = make_samples(4)
    opened = open_samples(_saved(tmp_path, samples), make_contract("tflite"), "calibration")
    assert isinstance(opened, np.memmap)
    np.testing.assert_array_equal(opened, samples)


def _nan(samples: np.ndarray) -> np.ndarray:
    samples[2, 1, 0, 0] = np.nan
    return samples


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda samples: samples.transpose(0, 2, 3, 1), "these look like NHWC, NCHW is expected"),
        (
            lambda samples: samples[:, :, 1:],
            r"samples of shape \(N, 3, 12, 12\), got \(4, 3, 11, 12\)",
        ),
        (lambda samples: samples.astype(np.float64), "expected float32 samples, got float64"),
        (lambda samples: samples[:0], "there are no samples"),
        (_nan, "sample 2 holds NaN or infinite values"),
        (
            lambda samples: samples * 100,
            "sample 0 has values from .* in channel 0, the preprocessing .* gives",
        ),
        (lambda samples: samples - 3, "were the samples normalized like images at inference"),
    ],
)
def test_samples_that_the_network_would_never_see_are_refused(tmp_path: Path, spoil, message: str) -> None:  # type: ignore[no-untyped-def]
    path = _saved(tmp_path, spoil(make_samples(4)))
    with pytest.raises(ConversionError, match=f"calibration: .*{message}") as caught:
        open_samples(path, make_contract(), "calibration")
    assert caught.value.kind == "calibration"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=r"parity: nowhere\.npy is no \.npy file"):
        open_samples(str(tmp_path / "nowhere.npy"), make_contract(), "parity")


def test_pickles_are_refused(tmp_path: Path) -> None:
    path = _saved(tmp_path, np.array([{"a": 1}], dtype=object))
    with pytest.raises(ConversionError, match=r"is no \.npy file"):
        open_samples(path, make_contract(), "parity")
