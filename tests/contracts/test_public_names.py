"""What a tab shows of a room: its public names, and nothing else."""

from importlib import import_module

import pytest


@pytest.mark.parametrize("room", ["families", "features", "kernels", "losses"])
def test_a_room_shows_its_public_names_only(room):
    module = import_module(f"manykernels.{room}")
    assert dir(module) == sorted(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)
