"""Progress is shown by what is installed, and whatever begins to show ends."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import layers, nn
from asyncgraph._progress import Lines, RichBars, Silence, TqdmBars, progress, shown

X = np.ones((5, 2))


def install(monkeypatch: pytest.MonkeyPatch, name: str, **contents: Any) -> None:
    """A module of that name, as if it were installed."""
    parent, _, child = name.partition(".")
    for one in (parent, name):
        module = ModuleType(one)
        module.__spec__ = pytest.__spec__  # `find_spec` asks for one
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

    def __init__(self, *columns: object, total: int = 0, desc: str = "", unit: str = "") -> None:
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


async def test_tqdm_has_a_bar_for_each_epoch_with_a_mark_for_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    uninstall(monkeypatch)
    install(monkeypatch, "tqdm.auto", tqdm=Bar)
    await fit()

    epoch = [("set_postfix_str", "loss 1.0000", False), ("update",)]
    end = [("set_postfix_str", "loss 1.0000, val_loss 1.0000"), ("close",)]
    assert [bar.calls for bar in Bar.made] == [[(f"epoch {one}/2", 3), *epoch * 3, *end] for one in (1, 2)]


async def test_rich_has_a_task_for_each_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    uninstall(monkeypatch)
    install(monkeypatch, "rich.progress", Progress=Bar, TextColumn=lambda text: text)
    await fit()

    (bar,) = Bar.made
    assert bar.calls[0] == ("start",)
    assert bar.calls[-1] == ("stop",)
    assert [one for one in bar.calls if one[0] == "add_task"] == [
        ("add_task", f"epoch {one}/2", 3, "") for one in (1, 2)
    ]
    assert sum(one[:1] == ("update",) and 1 in one for one in bar.calls) == 6


async def test_nothing_is_shown_if_nothing_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    await fit(progress_bar=False)
    assert capsys.readouterr() == ("", "")


async def test_a_bar_is_closed_if_the_epoch_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    uninstall(monkeypatch)
    install(monkeypatch, "tqdm.auto", tqdm=Bar)
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
    assert isinstance(progress(True), Lines)
    install(monkeypatch, "rich.progress", Progress=Bar, TextColumn=str)
    assert isinstance(progress(True), RichBars)
    install(monkeypatch, "tqdm.auto", tqdm=Bar)
    assert isinstance(progress(True), TqdmBars)
    assert isinstance(progress(False), Silence)


def test_scores_are_shown_with_their_names() -> None:
    assert shown({"loss": 0.123456, "accuracy": 1.0}) == "loss 0.1235, accuracy 1.0000"
