"""Hashes of the user's own code change with it, however far it is imported, and with nothing else."""

from __future__ import annotations

import functools
import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec

from imitate.own_code import code_of_env, own_code

FILES = {
    "far_shop/__init__.py": "from .tanks import Tank\n",
    "far_shop/tanks.py": "import math\nfrom gymnasium.envs.classic_control import CartPoleEnv\n"
    "from far_scale import SCALE\nclass Tank(CartPoleEnv): pass\n",
    "far_shop/unused.py": "",
    "far_scale.py": "import far_deep as deep\nSCALE = 1.0\ndef make(**kwargs): return Tank(**kwargs)\n",
    "far_deep/__init__.py": "",
    "far_idle.py": "",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    for name in ("far_shop", "far_shop.tanks", "far_shop.unused", "far_scale", "far_deep", "far_idle"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in ("far_shop", "far_shop.unused", "far_idle"):
        importlib.import_module(name)
    return tmp_path


@pytest.mark.parametrize("name", sorted(FILES))
def test_all_that_a_module_imports_counts_and_no_other_file(folder: Path, name: str) -> None:
    module = importlib.import_module("far_shop")
    before = own_code(module.Tank)
    (folder / name).write_text(FILES[name] + "# edited\n")
    assert (own_code(module.Tank) == before) == (name in ("far_shop/unused.py", "far_idle.py"))
    assert own_code(module) == own_code(module.Tank) == own_code(functools.partial(module.Tank, 1)) != ""


def test_installed_code_is_nobodys_own() -> None:
    assert own_code(gym.Env, json.dumps, json, own_code, int, len, None) == ""
    assert code_of_env(gym.make("CartPole-v1")) == ""


def test_the_function_that_makes_an_environment_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own file may hold the reward, while the class is the simulator's."""
    (folder / "far_idle.py").write_text(
        "from gymnasium.envs.classic_control import CartPoleEnv\nimport far_deep\n"
        "def make(**kwargs): return CartPoleEnv(**kwargs)\n"
    )
    made = importlib.reload(importlib.import_module("far_idle"))

    def found(entry_point: Any, limit: int = 9) -> str:
        spec = EnvSpec("Made-v0", entry_point, max_episode_steps=limit)
        monkeypatch.setitem(gym.registry, "Made-v0", spec)
        return code_of_env(gym.make("Made-v0"))

    first = found("far_idle:make")
    assert first == found(made.make) != ""
    partial = functools.partial(made.make, sutton_barto_reward=True)
    assert len({first, found(lambda: made.make()), found(made.make, limit=8), found(partial)}) == 4
    (folder / "far_deep" / "__init__.py").write_text("# edited\n")
    assert found(made.make) != first


class Adapter(gym.Env[Any, Any]):
    """As around an environment of another library, which `unwrapped` gives."""

    @property
    def unwrapped(self) -> Any:
        return object()


def test_an_environment_may_say_that_another_one_is_below_it() -> None:
    assert code_of_env(Adapter()) != ""


SCRIPT = """
import json
from gymnasium.envs.classic_control import CartPoleEnv
import gymnasium
from imitate.own_code import code_of_env
PAY = {pay}
def pay(): return PAY
class Tank(CartPoleEnv):
    def step(self, action):
        obs, _, *rest = super().step(action)
        return obs, pay(), *rest
gymnasium.register("Tank-v0", lambda **named: Tank({lambda_arg}, **named), kwargs=dict(render_mode={kwarg}))
budget = {budget}
if __name__ == "__main__":
    print(code_of_env(gymnasium.make("Tank-v0")))
"""


def test_of_the_script_itself_only_what_the_environment_uses_counts(tmp_path: Path) -> None:
    """Another learner or budget in the script must not begin all runs anew."""
    script = tmp_path / "study.py"

    def found(**edit: Any) -> str:
        script.write_text(SCRIPT.format(**{"pay": 1, "lambda_arg": True, "kwarg": None, "budget": 10} | edit))
        return subprocess.run(
            [sys.executable, script], check=True, capture_output=True, text=True
        ).stdout.strip()

    first = found()
    assert first == found(budget=20) != ""
    assert len({first, found(pay=2), found(lambda_arg=False), found(kwarg="'rgb_array'")}) == 4


STUDY = """
import json
LEVELS = {"easy": [1]}
class Tank:
    reach = 1
    def step(self): return json.dumps(LEVELS["easy"])
"""


@pytest.mark.parametrize(
    ("statement", "counts"),
    [
        ('LEVELS["hard"] = [2]', True),
        ('LEVELS["easy"][0] += 1', True),
        ('del LEVELS["easy"]', True),
        ("LEVELS.update(hard=[2])", True),
        ('LEVELS.setdefault("hard", []).append(2)', True),
        ("for level in range(2): LEVELS.pop(level)", True),
        ("Tank.reach = 2", True),
        ("json.dumps = repr", True),
        ("json.loads('2')", False),
        ("tank = Tank()", False),
        ("Tank().step()", False),
        ("print(Tank().step())", False),
        ("if __name__ == '__main__': print(Tank().step())", False),
        ("try:\n    class Robot:\n        def __init__(self): self.reach = 2\nfinally: pass", False),
    ],
)
def test_statements_that_change_what_is_used_count(
    statement: str, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a comparison would reuse runs from before the change."""
    script: Any = ModuleType("__main__")
    script.__file__ = str(tmp_path / "study.py")
    monkeypatch.setitem(sys.modules, "__main__", script)
    exec(STUDY, vars(script))
    Path(script.__file__).write_text(STUDY)
    before = own_code(script.Tank)
    Path(script.__file__).write_text(STUDY + statement)
    assert (own_code(script.Tank) != before) == counts


@pytest.mark.parametrize("statement", ["env.close()", "env.reset(seed=3)", "X = " + " + ".join(["1"] * 700)])
def test_a_variable_of_a_function_is_not_the_scripts_of_the_same_name(tmp_path: Path, statement: str) -> None:
    """A sum of 700 terms is nested as deeply, and no reason to fail."""

    def hashed(last: str) -> str:
        text = (
            "import gymnasium as gym\nfrom imitate.own_code import own_code\n"
            "def make():\n    env = gym.make('CartPole-v1')\n    return env\n"
        )
        script = tmp_path / "script.py"
        script.write_text(f"{text}env = make()\n{last}\nprint(own_code(make))\n")
        run = subprocess.run([sys.executable, str(script)], check=True, capture_output=True, text=True)
        return run.stdout

    assert hashed(statement) == hashed("pass") != "\n"
