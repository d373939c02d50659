"""ONNX, `torch.export` and TorchScript files of a policy, each compared with the policy before it counts."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from imitate.envs.spaces import Array
from imitate.errors import InputError, pip_install
from imitate.export.deployed import WIDE_UNSIGNED, Deployed, Inputs, compare, named
from imitate.files import atomic, versions
from imitate.nn.policy import ActorPolicy

__all__ = ["to_onnx", "to_torch", "to_torchscript"]

_OPSET = 17  # which runtimes of 2022 and later read


def to_onnx(policy: ActorPolicy, path: str | Path) -> None:
    """Write an ONNX file; its batch is of any size, and its metadata hold the description of the policy.

    Its inputs have the names that `named` gives. Its output is `action`, with underscores behind that if an input has
    this name.

    Raises InputError if the packages are missing, or if onnxruntime gives other actions than the policy.
    """
    path = Path(path)
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise InputError(f"export to onnx needs {error.name}: {pip_install('export')}") from error
    deployed = Deployed(policy)
    inputs = deployed.sample(2)
    names = [f"onnx::{name}" if _is_lost(name, part) else name for name, part in named(inputs).items()]
    output = "action"
    while output in names:
        output += "_"
    axes = {name: {0: "batch"} for name in (*names, output)}
    with atomic(path) as file:
        with warnings.catch_warnings():  # of the exporter that needs no further package
            warnings.simplefilter("ignore")
            torch.onnx.export(
                deployed,
                # {}: no named arguments, for which it would take a dict that is last.
                (_traceable(inputs), {}),
                str(file),
                input_names=names,
                output_names=[output],
                dynamic_axes=axes,
                opset_version=_OPSET,
                dynamo=False,
            )
        model = onnx.load(str(file))
        _restore_inputs(model.graph, inputs)
        shape = model.graph.output[0].type.tensor_type.shape
        for dim, size in zip(shape.dim[1:], policy.action_space.shape or (), strict=True):
            dim.dim_value = size  # the exporter leaves some unknown
        onnx.helper.set_model_props(model, {"policy": json.dumps(policy.describe()), **versions()})
        onnx.save(model, str(file))
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])

        def act(inputs: Inputs) -> Array:
            actions: Array = session.run(None, {name: x.numpy() for name, x in named(inputs).items()})[0]
            return actions

        compare(deployed, act, path.name)


def _is_lost(name: str, part: Tensor) -> bool:
    """True for an input whose name or type torch's exporter to ONNX can't take."""
    return name.isdigit() or part.dtype in WIDE_UNSIGNED


def _traceable(inputs: Inputs) -> Inputs:
    """The inputs in types that the exporter takes."""
    if isinstance(inputs, dict):
        return {name: part.double() if part.dtype in WIDE_UNSIGNED else part for name, part in inputs.items()}
    return inputs.double() if inputs.dtype in WIDE_UNSIGNED else inputs


def _restore_inputs(graph: Any, inputs: Inputs) -> None:
    """Give the inputs that the exporter can't take their own names and types, with a cast behind each."""
    from onnx import helper

    for value, (name, part) in zip(graph.input, named(inputs).items(), strict=True):
        if _is_lost(name, part):
            kind = value.type.tensor_type
            graph.node.insert(0, helper.make_node("Cast", [name], [value.name], to=kind.elem_type))
            value.name, kind.elem_type = name, helper.np_dtype_to_tensor_dtype(part.numpy().dtype)


def to_torch(policy: ActorPolicy, path: str | Path) -> None:
    """Write a `torch.export` program, for `torch.export.load`; it takes what `Deployed` does, in batches of any size.

    Raises InputError if it acts differently from the policy.
    """
    path = Path(path)
    deployed = Deployed(policy)
    inputs, axes = deployed.sample(2), {0: torch.export.Dim("batch")}
    shapes = dict.fromkeys(inputs, axes) if isinstance(inputs, dict) else axes
    with atomic(path) as file:
        buffer = io.BytesIO()  # torch warns of a file whose name does not end in .pt2
        torch.export.save(torch.export.export(deployed, (inputs,), dynamic_shapes=(shapes,)), buffer)
        file.write_bytes(buffer.getvalue())
        loaded = torch.export.load(buffer).module()

        compare(deployed, lambda inputs: loaded(inputs).numpy(), path.name)


def to_torchscript(policy: ActorPolicy, path: str | Path) -> None:
    """Write a TorchScript file, for `torch.jit.load` in Python and C++; it takes what `Deployed` does.

    The program raises an error for floats in the place of bytes. Raises InputError if it acts differently from the
    policy.
    """
    path = Path(path)
    deployed = Deployed(policy)
    jit: Any = torch.jit  # it has no types
    with atomic(path) as file:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            buffer = io.BytesIO()  # torch aborts if it can't write a file
            program = _OfBytes(deployed, jit.script(_bytes))
            jit.save(jit.trace(program, (deployed.sample(2),), check_trace=False), buffer)
            file.write_bytes(buffer.getvalue())
            loaded = jit.load(str(file))

        compare(deployed, lambda inputs: loaded(inputs).numpy(), path.name)


class _OfBytes(nn.Module):
    """`Deployed` behind a check of its pictures, since a trace casts whatever it gets: one in [0, 1] would be black."""

    def __init__(self, deployed: Deployed, check: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.deployed, self._check = deployed, check

    def forward(self, observation: Inputs) -> Tensor:
        if isinstance(observation, dict):
            return self.deployed({name: self._checked(part) for name, part in observation.items()})  # type: ignore[no-any-return]
        return self.deployed(self._checked(observation))  # type: ignore[no-any-return]

    def _checked(self, part: Tensor) -> Tensor:
        return self._check(part) if part.dtype == torch.uint8 else part


def _bytes(part: Tensor) -> Tensor:
    """The tensor itself. A trace calls this as it is only if it is a script."""
    if part.is_floating_point():
        raise ValueError(
            "floats in the place of bytes: multiply a picture in [0, 1] by 255 and cast it to uint8"
        )
    return part
