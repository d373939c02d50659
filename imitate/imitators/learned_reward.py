"""The reward that GAIL, AIRL, DAC or GAIfO learned, as it was when training ended: stored, loaded, and used by others.

It is a function of steps alone. With the logit of the discriminator,

    r(s, a, s') = form(logit(s, a, s') + alive) + absorbed if the step terminates

where `form` is the learner's field `reward`, and `alive` and `absorbed` are what the absorbing state added in the end
(`absorbing` derives them). AIRL's logit leaves the policy and the potential out: it is the reward g(s).

A discriminator rewards the learner that it was trained beside, and fades as that comes to go where the expert goes. So
it may say little to a learner that begins anew. AIRL's g does not fade.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn.utils import parametrize

from imitate.configs.dac import DACConfig
from imitate.configs.gail import GAILConfig, Reward
from imitate.envs.numbers import all_finite, misfit
from imitate.envs.spaces import (
    Array,
    Space,
    center_and_scale,
    check_plain,
    check_supported,
    space_from_json,
    space_to_json,
    values_of,
)
from imitate.errors import InputError
from imitate.files import Number, write_json
from imitate.imitators.airl import ShapedNet
from imitate.imitators.architecture import Architecture
from imitate.imitators.dac import PairNet
from imitate.imitators.discriminator import Discriminator, reward_of
from imitate.imitators.gaifo import ChangeNet
from imitate.imitators.reward_files import NAME, reward_folder
from imitate.nn.networks import seeded
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import save_state
from imitate.nn.stored_policy import stored_module

__all__ = ["LearnedReward", "LearnsReward", "load_reward", "save_reward"]

Network = Discriminator | ShapedNet | PairNet


@runtime_checkable
class LearnsReward(Protocol):
    """A learner with a discriminator that rewards it.

    ends  the absorbing state's additions to the logit of every pair, and to the reward of a termination
    """

    @property
    def config(self) -> Any: ...
    @property
    def policy(self) -> ActorPolicy: ...
    @property
    def discriminator(self) -> Network: ...
    def ends(self) -> tuple[float, float]: ...


@dataclass(frozen=True)
class Description:
    """The content of reward.json; spaces as `space_to_json` gives them."""

    network: Architecture
    form: Reward
    alive: Number
    absorbed: Number
    observation_space: dict[str, Any]
    action_space: dict[str, Any]


class LearnedReward(nn.Module):
    """A reward that was learned from demonstrations: a function of steps, as arrays.

    description                      what reward.json holds
    observation_space, action_space  of the environment that it was learned in
    sees_actions                     False if only states count, as with AIRL and GAIfO
    """

    def __init__(self, description: Description) -> None:
        super().__init__()
        self.description = description
        self.observation_space: Space = space_from_json(description.observation_space)
        self.action_space: Space = space_from_json(description.action_space)
        check_plain("a learned reward", self.observation_space, self.action_space)
        check_supported(self.observation_space, self.action_space)
        with seeded(0):  # its weights are still to be loaded
            self.network = _network(description.network, self.observation_space, self.action_space)
        self.sees_actions = description.network.kind in ("gail", "dac")

    @classmethod
    def of(cls, learner: LearnsReward) -> LearnedReward:
        """The reward of a learner as it is now."""
        alive, absorbed = learner.ends()
        policy, network = learner.policy, learner.discriminator
        described = (space_to_json(policy.observation_space), space_to_json(policy.action_space))
        reward = cls(Description(network.architecture, learner.config.reward, alive, absorbed, *described))
        reward.network.load_state_dict(_plain_state(network))
        return reward.eval()

    @torch.inference_mode()
    def __call__(self, obs: Array, actions: Array, next_obs: Array, terminated: Array) -> Array:
        """Rewards (B,) float32 of raw observations and successors (B, *obs_shape) and the environment's own actions
        (B, *action_shape); terminated (B,) bool: the task ended there.

        Raises InputError for arrays of another shape, NaN, flags that are no whole numbers, and discrete actions or
        observations outside their space.
        """
        ends = np.asarray(terminated)
        if ends.ndim != 1:
            raise InputError(
                f"a reward takes a batch of steps, with terminated of shape (B,), got {ends.shape}: give a single step "
                "as a batch of 1"
            )
        if ends.dtype.kind not in "biu":
            raise InputError(
                f"terminated of a reward's steps are {ends.dtype}, wanted flags: cast them to bool"
            )
        seen, acted = self.observation_space, self.action_space
        one, taken, other = (
            torch.from_numpy(_rows(given, space, len(ends)))
            for given, space in ((obs, seen), (actions, acted), (next_obs, seen))
        )
        ended = torch.from_numpy(ends.astype(bool))
        logits = self.network.judge(one, self._in_units(taken), other, ended)
        rewards = reward_of(logits + self.description.alive, self.description.form)
        found: Array = (rewards + self.description.absorbed * ended).numpy()
        return found

    def _in_units(self, actions: Tensor) -> Tensor:
        """The environment's actions to [-1, 1]^D, or to indices from 0, as `ActorPolicy.to_unit` does."""
        space = self.action_space
        if isinstance(space, spaces.Discrete):
            return actions.long() - int(space.start)
        assert isinstance(space, spaces.Box)
        center, scale = map(torch.as_tensor, center_and_scale(space))
        return torch.where(scale > 0, (actions - center) / scale, 0.0).clamp(-1.0, 1.0).float()


def save_reward(folder: str | Path, reward: LearnedReward) -> None:
    """Write the reward to the folder, replacing its files one by one."""
    folder = Path(folder)
    write_json(folder / f"{NAME}.json", asdict(reward.description))
    save_state(folder / f"{NAME}.safetensors", reward.state_dict())


def load_reward(run: str | Path) -> LearnedReward:
    """Load the reward that a run of gail, dac or gaifo learned, or one from its own folder.

    Raises InputError if the folder holds none, or a damaged one.
    """
    return stored_module(reward_folder(run), NAME, Description, LearnedReward).eval()


def _rows(given: Any, space: Space, steps: int) -> Array:
    """One row of the space for each step. Raises InputError if they are none."""
    rows = np.asarray(given)
    if rows.dtype.kind not in "biuf":
        raise InputError(f"a reward takes arrays of real numbers, got {rows.dtype}: cast it to {space.dtype}")
    if rows.shape != (wanted := (steps, *(space.shape or ()))):
        raise InputError(
            f"a reward of {steps} steps takes arrays of shape {wanted}, got {rows.shape}: reshape it"
        )
    if not all_finite(rows):
        raise InputError("a step holds NaN or infinite numbers: correct the environment that gave it")
    if wrong := misfit(rows, space):
        raise InputError(f"a step {wrong}")
    if (discrete := values_of(space)) is not None:
        first, count = discrete
        if (outside := rows[(rows < first) | (rows >= first + count)]).size:
            raise InputError(f"a step holds {outside[0]:g}, which is not in {space}: correct it")
    return rows.astype(space.dtype, order="C")  # torch takes no read-only and no reversed arrays


def _network(architecture: Architecture, observation_space: Space, action_space: Space) -> Network:
    kind, hidden = architecture.kind, architecture.hidden
    if kind in ("gail", "airl"):
        config = GAILConfig(hidden=hidden, activation=architecture.activation)
        if kind == "airl":
            return ShapedNet(observation_space, config)
        return Discriminator(observation_space, action_space, config)
    if not isinstance(action_space, spaces.Box):
        raise InputError(
            f"a reward of {kind} is of continuous actions, got {action_space}: take one of gail or airl"
        )
    (width,) = hidden
    network = PairNet if kind == "dac" else ChangeNet
    dimensions = int(np.prod(action_space.shape or ()))
    return network(observation_space, dimensions, DACConfig(discriminator_hidden=width))


def _plain_state(network: Network) -> Mapping[str, Tensor]:
    """The network's state, with spectral norms multiplied out."""
    state = {
        name: tensor for name, tensor in network.state_dict().items() if ".parametrizations." not in name
    }
    training = network.training
    network.eval()  # or the norm's estimate would go on
    for name, module in network.named_modules():
        if parametrize.is_parametrized(module, "weight"):
            state[f"{name}.weight"] = module.weight.detach()
    network.train(training)
    return state
