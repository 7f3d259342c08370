# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Somebody in front of the page, who sees pictures of it and moves the mouse."""

import io
import itertools
import math

import numpy as np
from PIL import Image

LABEL = 196, 37, 154  # color of the label at the ball
BOX = 24  # about the width of the ball [px]
MIDDLE = 620.0  # between the panels [px]
AWAY = 100.0, 700.0  # from the robot: on a panel [px]
MOST_LOOKS = 100


class Person:
    """Looks at a page, and keeps what was seen.

    Parameters
    ----------
    page : playwright.sync_api.Page
    folder : pathlib.Path
        Where the pictures are kept.
    """

    def __init__(self, page, folder):
        self._page, self._folder = page, folder
        self._numbers = itertools.count(1)
        self.hand = AWAY
        folder.mkdir(exist_ok=True)
        page.mouse.move(*self.hand)

    def look(self, what):
        """Return where the ball is [px], or None if it is not to be seen."""
        data = self._page.screenshot()
        (self._folder / f"{next(self._numbers):02}_{what}.png").write_bytes(data)
        return find_ball(np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int))

    def find(self, what):
        """Return where the ball is; wait until it is to be seen."""
        for _ in range(MOST_LOOKS):
            ball = self.look(what)
            if ball:
                return ball
        raise AssertionError(f"there is no ball; see {self._folder}")

    def move(self, place):
        self._page.mouse.move(*place)
        self.hand = place

    def reach(self):
        """Follow the ball with the mouse until it is there and stands still.

        The arm waits while the mouse is near: with the ball under the floor, too.
        """
        for _ in range(MOST_LOOKS):
            ball, before = self.look("reach"), self.hand
            self.move(ball or AWAY)
            if ball and math.dist(ball, before) < 3.0:
                return
        raise AssertionError(f"the ball got away; see {self._folder}")

    def pull(self):
        """Press the button, and move the mouse up and away from the robot, which could hide it."""
        self._page.mouse.down()
        start = np.array(self.hand)
        side = math.copysign(90.0, start[0] - MIDDLE)
        end = np.clip(start + (side, -60.0), (350.0, 100.0), (890.0, 700.0))  # beside the panels
        for part in np.linspace(0.2, 1.0, 5):
            self.move(tuple(start + part * (end - start)))

    def let_go(self):
        self._page.mouse.up()


def find_ball(pixels):
    """Return the middle of the densest pink spot, or None."""
    red, green, blue = np.moveaxis(pixels, 2, 0)
    pink = (red > 150) & (red - green > 80) & (blue - green > 60)
    pink &= abs(pixels - LABEL).max(axis=2) > 20
    sums = np.pad(pink.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    counts = sums[BOX:, BOX:] - sums[:-BOX, BOX:] - sums[BOX:, :-BOX] + sums[:-BOX, :-BOX]
    y, x = np.unravel_index(counts.argmax(), counts.shape)
    if counts[y, x] < 0.3 * BOX * BOX:
        return None
    rows, columns = np.nonzero(pink[y : y + BOX, x : x + BOX])
    return float(x + columns.mean()), float(y + rows.mean())
