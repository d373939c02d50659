"""The encoder of observations in several parts: images through networks of their own, the rest concatenated."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from imitate.envs.fields import Fields, Space, leaves
from imitate.envs.spaces import values_of
from imitate.errors import InputError
from imitate.nn.networks import MLP, Activation, channels_last, is_image, nature_cnn, one_hot
from imitate.nn.normalize import RunningMoments

__all__ = ["FieldEncoder", "fields_of"]


class FieldEncoder(nn.Module):
    """Maps raw observations of several parts to features (B, F).

    Observations are Dict, as bytes of rows (B, row_bytes) from `tensor_of`; MultiDiscrete; or MultiBinary (B, *shape).
    Images from 36 x 36 pixels on go through a NatureCNN each. The rest is concatenated: Discrete and MultiDiscrete
    one-hot, uint8 scaled to [0, 1], numbers as they are; standardised by running statistics if `normalize` is set; and
    goes through an MLP of its own, so that a few numbers count beside the 512 features of an image. A last layer joins
    the two.
    """

    def __init__(
        self,
        space: Space,
        hidden: Sequence[int],
        activation: Activation,
        *,
        normalize: bool,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        if any(width < 1 for width in hidden):
            raise InputError(f"hidden layers need a width of at least 1, got {list(hidden)}")
        self._space = space
        parts = {name: part for name, part, _ in leaves(space)} if isinstance(space, Fields) else {"": space}
        self._images = {name: part for name, part in parts.items() if is_image(part)}
        self._numbers = {name: part for name, part in parts.items() if name not in self._images}
        self.cnns = nn.ModuleList(map(nature_cnn, self._images.values()))
        count = sum(spaces.flatdim(part) for part in self._numbers.values())
        self.moments = RunningMoments((count,)) if normalize and count else None
        self.net: nn.Sequential = (
            MLP([count, *hidden], activation, layer_norm=layer_norm) if count else nn.Sequential()
        )
        widths = [count, *hidden] if count else [0]
        joint = widths[-1] + 512 * len(self._images)
        self.join = MLP([joint, *hidden[-1:]], activation) if self._images else nn.Sequential()
        self.features = hidden[-1] if hidden else joint

    def prepare(self, obs: Tensor) -> Tensor:
        """Raw observations as they are."""
        return obs

    def observe(self, obs: Tensor) -> None:
        """Update the running statistics, if there are any, with raw observations."""
        if self.moments is not None:
            self.moments.update(self.numbers(obs))

    def numbers(self, obs: Tensor) -> Tensor:
        """(B, N) everything that is no image."""
        if not self._numbers:
            return torch.empty((len(obs), 0), device=obs.device)
        return self._side_by_side(fields_of(self._space, obs, self._numbers))

    def forward(self, obs: Tensor) -> Tensor:
        return self.join_parts(fields_of(self._space, obs))

    def join_parts(self, parts: Mapping[str, Tensor]) -> Tensor:
        """The features of parts (B, *shape) by name, as `fields_of` gives them."""
        features = []
        if self._numbers:
            numbers = self._side_by_side(parts)
            features.append(self.net(numbers if self.moments is None else self.moments(numbers)))
        for (name, space), cnn in zip(self._images.items(), self.cnns, strict=True):
            image = parts[name].permute(0, 3, 1, 2) if channels_last(space) else parts[name]
            features.append(cnn(image.to(torch.float32, memory_format=torch.channels_last) / 255.0))
        return self.join(torch.cat(features, 1))  # type: ignore[no-any-return]

    def _side_by_side(self, parts: Mapping[str, Tensor]) -> Tensor:
        return torch.cat([_flat(space, parts[name]) for name, space in self._numbers.items()], 1)


def fields_of(space: Space, obs: Tensor, names: Collection[str] | None = None) -> dict[str, Tensor]:
    """The parts (B, *shape) of Dict observations by name, "camera/left" in a Dict of a Dict; of others one part "".

    obs    (B, row_bytes) as `tensor_of` gives Dict observations
    names  of the parts to take, by default all
    """
    if not isinstance(space, Fields):
        return {"": obs}
    return {
        name: _part(obs, part, offset)
        for name, part, offset in leaves(space)
        if names is None or name in names
    }


def _part(rows: Tensor, space: Space, offset: int) -> Tensor:
    like = np.empty((0, *(space.shape or ())), space.dtype)
    nbytes = like.itemsize * int(np.prod(like.shape[1:]))
    # A copy, because bytes that are not aligned can't be viewed as numbers.
    own = rows[:, offset : offset + nbytes].clone(memory_format=torch.contiguous_format)
    return own.view(torch.from_numpy(like).dtype).reshape(len(rows), *like.shape[1:])


def _flat(space: Space, part: Tensor) -> Tensor:
    """(B, *shape) to (B, N) floats."""
    discrete = values_of(space)
    if discrete is None or isinstance(space, spaces.MultiBinary):
        numbers = part.reshape(-1, spaces.flatdim(space)).float()
        return numbers / 255.0 if space.dtype == np.uint8 else numbers
    first, count = (np.ravel(one).tolist() for one in discrete)
    columns = part.reshape(-1, len(count)).unbind(1)
    return torch.cat([one_hot(column, a, n) for column, a, n in zip(columns, first, count, strict=True)], 1)
