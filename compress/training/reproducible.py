"""The same seed gives the same bytes: random states and deterministic kernels. And a collector that keeps still."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def reproducible(seed: int, device: str) -> Iterator[None]:
    """Seeds torch, numpy and Python, and chooses deterministic kernels; all is as before afterwards.

    On CUDA an operator without a deterministic kernel warns and runs; on the CPU it raises.
    """
    import numpy as np
    import torch
    import torch.utils.deterministic as kernels

    cuda = torch.device(device).type == "cuda"
    if cuda:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    states = random_states(cuda)
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    fill, benchmark = kernels.fill_uninitialized_memory, torch.backends.cudnn.benchmark  # type: ignore[attr-defined]
    torch.use_deterministic_algorithms(True, warn_only=cuda)
    # Filling finds bugs in kernels and costs time in every step.
    kernels.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = False
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)
    try:
        yield
    finally:
        restore_random_states(states)
        torch.backends.cudnn.benchmark = benchmark
        kernels.fill_uninitialized_memory = fill  # type: ignore[attr-defined]
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)


def random_states(cuda: bool) -> dict[str, Any]:
    """The global random states, as tensors and numbers, which `torch.load(weights_only=True)` reads."""
    import numpy as np
    import torch

    numpy_state = np.random.get_state(legacy=False)
    inner = numpy_state["state"]
    version, words, gauss_next = random.getstate()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if cuda else [],
        "numpy": torch.from_numpy(inner["key"].astype(np.int64)),
        "numpy_rest": [int(inner["pos"]), int(numpy_state["has_gauss"]), float(numpy_state["gauss"])],
        "python": torch.tensor(words),
        "python_rest": [version, gauss_next],
    }


def restore_random_states(states: dict[str, Any]) -> None:
    import numpy as np
    import torch

    torch.set_rng_state(states["torch"])
    if states["cuda"]:
        torch.cuda.set_rng_state_all(states["cuda"])
    np.random.set_state(("MT19937", states["numpy"].numpy().astype(np.uint32), *states["numpy_rest"]))
    version, gauss_next = states["python_rest"]
    random.setstate((version, tuple(states["python"].tolist()), gauss_next))


@contextmanager
def collector_paused() -> Iterator[None]:
    """Python's cycle collector would stop the loop at arbitrary steps; call `gc.collect()` where it suits."""
    enabled = gc.isenabled()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()
