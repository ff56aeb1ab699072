"""Progress is shown by what is installed, and whatever begins to show ends."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import layers, nn
from asyncgraph._progress import RichBar, TqdmBar, new_bar

X = np.ones((5, 2))


def install(monkeypatch: pytest.MonkeyPatch, name: str, **contents: Any) -> None:
    """A module of that name, as if it were installed."""
    parent, _, child = name.partition(".")
    for one in (parent, name):
        module = ModuleType(one)
        monkeypatch.setitem(sys.modules, one, module)
    if child:
        setattr(sys.modules[parent], child, sys.modules[name])
    vars(sys.modules[name]).update(contents)


def uninstall(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tqdm", "rich"):
        monkeypatch.setitem(sys.modules, name, None)


class Bar:
    """Takes the place of tqdm's bars, and of rich's."""

    made: list[Bar]

    def __init__(self, *columns: object, total: int = 0, desc: str = "") -> None:
        self.n = 0
        self.calls: list[Any] = [(desc, total)] if desc else []
        Bar.made.append(self)

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: self.calls.append((name, *args, *kwargs.values()))

    @staticmethod
    def get_default_columns() -> tuple[str, ...]:
        return ("bar",)


@pytest.fixture(autouse=True)
def no_bars() -> None:
    Bar.made = []


async def fit(progress_bar: bool = True) -> None:
    model = ag.Sequential([layers.Dense(2)], (2,), seed=0)
    model.compile(ag.optimizers.SGD(0.0), lambda p, y: nn.mean_squared_error(p * 0.0, y))
    async with model:
        await model.fit(X, X, batch_size=2, epochs=2, validation_data=(X, X), progress_bar=progress_bar)


async def test_without_a_library_there_is_a_line_for_each_epoch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    uninstall(monkeypatch)
    await fit()
    assert capsys.readouterr().out == (
        "epoch 1/2: loss 1.0000, val_loss 1.0000\nepoch 2/2: loss 1.0000, val_loss 1.0000\n"
    )


def notes(bar: Bar, method: str) -> list[str]:
    """What was shown behind a bar."""
    return [one[-1] if method == "update" else one[1] for one in bar.calls if one[0] == method]


async def test_tqdm_has_a_bar_for_each_epoch_with_the_scores_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    uninstall(monkeypatch)
    install(monkeypatch, "tqdm", tqdm=Bar)
    await fit()

    assert [bar.calls[0] for bar in Bar.made] == [("epoch 1/2", 5), ("epoch 2/2", 5)]
    for bar in Bar.made:
        assert [one[1] for one in bar.calls if one[0] == "update"] == [0, 2, 4, 5]
        assert notes(bar, "set_postfix_str") == ["", "loss 1.0000", "loss 1.0000", "loss 1.0000, val_loss 1.0000"]
        assert bar.calls[-1] == ("close",)


async def test_rich_has_a_bar_for_each_epoch_with_the_scores_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    uninstall(monkeypatch)
    install(monkeypatch, "rich.progress", Progress=Bar, TextColumn=lambda text: text)
    await fit()

    assert len(Bar.made) == 2
    for number, bar in enumerate(Bar.made, start=1):
        assert bar.calls[:2] == [("add_task", f"epoch {number}/2", 5, ""), ("start",)]
        assert [one[2] for one in bar.calls if one[0] == "update"] == [0, 2, 4, 5]
        assert notes(bar, "update") == ["", "loss 1.0000", "loss 1.0000", "loss 1.0000, val_loss 1.0000"]
        assert bar.calls[-1] == ("stop",)


async def test_nothing_is_shown_if_nothing_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    await fit(progress_bar=False)
    assert capsys.readouterr() == ("", "")


async def test_a_bar_is_closed_if_the_epoch_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    uninstall(monkeypatch)
    install(monkeypatch, "tqdm", tqdm=Bar)
    model = ag.Sequential([lambda x: x], (2,))
    with model.graph:
        scale = ag.variable(np.float32(1))
    model.compile(ag.optimizers.SGD(0.1), lambda p, y: nn.softmax_cross_entropy(p * scale, y))
    async with model:
        with pytest.raises(IndexError):
            await model.fit(X, [0, 1, 2, 0, 0], batch_size=2, shuffle=False)
    assert Bar.made[0].calls[-1] == ("close",)


def test_the_library_is_the_first_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    uninstall(monkeypatch)
    assert new_bar(3, "") is None
    install(monkeypatch, "rich.progress", Progress=Bar, TextColumn=str)
    assert isinstance(new_bar(3, ""), RichBar)
    install(monkeypatch, "tqdm", tqdm=Bar)
    assert isinstance(new_bar(3, ""), TqdmBar)
