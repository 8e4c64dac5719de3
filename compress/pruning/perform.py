"""Carries out a plan, after proving on copies that the cut network equals the masked one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compress.errors import StageError
from compress.models.cost import Cost, count_macs, count_parameters
from compress.models.edits import apply_edits, extended
from compress.models.network import Network
from compress.pruning.masked import compare
from compress.pruning.plan import PruningPlan

if TYPE_CHECKING:
    from torch import Tensor


def perform(network: Network, plan: PruningPlan, inputs: Tensor) -> float:
    """Cuts the network in place and appends the edits to its architecture. `inputs` (N, C, H, W).

    Returns the largest difference between cut and masked network, divided by the largest output. Raises StageError,
    with the network as it was, when they are not equal, and afterwards when the cost is not the planned one.
    """
    outcome = compare(network.module, plan.edits, inputs)
    if not outcome.equal:
        raise StageError(
            outcome.error
            or f"cut and masked network are not equal: outputs differ by {outcome.difference:.1g} of the largest"
        )
    apply_edits(network.module, plan.edits)
    network.architecture = extended(network.architecture, plan.edits)
    cost = Cost(count_parameters(network.module), count_macs(network.module, (inputs,)))
    # Outside of the layers, attention may have become cheaper than planned.
    if cost.parameters != plan.after.parameters or cost.macs > plan.after.macs:
        raise StageError(f"the cut network costs {cost}, planned were {plan.after}")
    return outcome.difference
