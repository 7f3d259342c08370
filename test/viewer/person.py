# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A user of the page, who sees pictures of it and moves the mouse."""

import io
import itertools
import math

import numpy as np
from PIL import Image

LABEL_COLOR = 196, 37, 154  # red, green, blue; the label at the ball
BALL_WIDTH = 24  # px
MIDDLE = 620.0  # px; halfway between the panels
PANEL_POINT = 100.0, 700.0  # px; a point on a panel, far from the robot
MAX_PICTURES = 100


class Person:
    """A user who looks at a page and keeps the pictures.

    Parameters
    ----------
    page : playwright.sync_api.Page
    folder : pathlib.Path
        Folder of the pictures.
    """

    def __init__(self, page, folder):
        self._page, self._folder = page, folder
        self._numbers = itertools.count(1)
        self.hand = PANEL_POINT
        folder.mkdir(exist_ok=True)
        page.mouse.move(*self.hand)

    def look(self, name):
        """Return the position of the ball [px]; None if it is not visible."""
        data = self._page.screenshot()
        (self._folder / f"{next(self._numbers):02}_{name}.png").write_bytes(data)
        return find_ball(np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int))

    def find(self, name):
        """Wait until the ball is visible; return its position [px]."""
        for _ in range(MAX_PICTURES):
            ball = self.look(name)
            if ball:
                return ball
        raise AssertionError(f"there is no ball; see {self._folder}")

    def move(self, position):
        self._page.mouse.move(*position)
        self.hand = position

    def reach(self):
        """Follow the ball with the mouse until it is there and stands still.

        The arm waits while the mouse is near: with the ball under the floor, too.
        """
        for _ in range(MAX_PICTURES):
            ball, before = self.look("reach"), self.hand
            self.move(ball or PANEL_POINT)
            if ball and math.dist(ball, before) < 3.0:
                return
        raise AssertionError(f"the ball got away; see {self._folder}")

    def pull(self):
        """Press the button, and move the mouse up and away from the robot, which could hide it."""
        self._page.mouse.down()
        start = np.array(self.hand)
        side = math.copysign(90.0, start[0] - MIDDLE)
        end = np.clip(start + (side, -60.0), (350.0, 100.0), (890.0, 700.0))  # beside the panels
        for fraction in np.linspace(0.2, 1.0, 5):
            self.move(tuple(start + fraction * (end - start)))

    def let_go(self):
        self._page.mouse.up()


def find_ball(pixels):
    """Return the middle of the densest pink spot, or None."""
    red, green, blue = np.moveaxis(pixels, 2, 0)
    pink = (red > 150) & (red - green > 80) & (blue - green > 60)
    pink &= abs(pixels - LABEL_COLOR).max(axis=2) > 20
    sums = np.pad(pink.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    counts = (
        sums[BALL_WIDTH:, BALL_WIDTH:]
        - sums[:-BALL_WIDTH, BALL_WIDTH:]
        - sums[BALL_WIDTH:, :-BALL_WIDTH]
        + sums[:-BALL_WIDTH, :-BALL_WIDTH]
    )
    y, x = np.unravel_index(counts.argmax(), counts.shape)
    if counts[y, x] < 0.3 * BALL_WIDTH * BALL_WIDTH:
        return None
    rows, columns = np.nonzero(pink[y : y + BALL_WIDTH, x : x + BALL_WIDTH])
    return float(x + columns.mean()), float(y + rows.mean())
