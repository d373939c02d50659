"""`imitate envs`."""

from __future__ import annotations

import json

import pytest

from imitate.cli import main


def test_it_lists_what_is_here_and_what_an_extra_would_add(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("envpool")
    assert main(["envs", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    environments = facts["environments"]
    assert environments["Classic control"]["CartPole-v1"] == ["gymnasium", "async", "envpool"]
    assert environments["Box2D"]["CarRacing-v3"] == ["gymnasium", "async"]
    assert "imitate/BulletCartPole-v0" in environments["Our own"]
    assert environments["Atari"]["ALE/Pong-v5"] == ["gymnasium", "async", "ale"]
    assert environments["Toy text"]["Blackjack-v1"] == ["gymnasium", "async"]  # its observations are a Tuple

    monkeypatch.setattr("imitate.envs.backends.envpool.find_spec", lambda _: None)
    assert main(["envs"]) == 0
    text = capsys.readouterr().out
    assert "Classic control (backends gymnasium, async)\n" in text
    assert "measured by: sticky actions 0.25, " in text
    assert 'Not here: pip install -c constraints.txt -e ".[envpool]"' in text
