"""The renderer: sprites, camera, shadows, textures, props, hands, sensor and shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from horst.synth.render import textures
from horst.synth.render.hands import make_hand, reach_angle
from horst.synth.render.raster import Camera, FrameBuffer, Sensor, ShapeCanvas, blur, make_sprite, resample
from horst.synth.somethings.props import PROPS, kinds, make_prop

WHITE = np.ones((20, 10, 4), np.float32)


def centroid(light: np.ndarray) -> tuple[float, float]:
    rows, columns = np.mgrid[0 : light.shape[0], 0 : light.shape[1]] + 0.5
    return float((columns * light).sum() / light.sum()), float((rows * light).sum() / light.sum())


@pytest.mark.parametrize("angle", [0.0, 0.3, math.pi / 2])
@pytest.mark.parametrize("scale", [0.6, 1.0, 2.2])
def test_a_sprite_keeps_its_position_and_area(angle: float, scale: float) -> None:
    canvas = FrameBuffer(100, 140)
    canvas.draw(make_sprite(WHITE, texels=100.0), 0.4, 0.6, angle=angle, scale=scale)
    light = canvas.pixels[..., 0]
    # the unit square is in the centre of a wide image
    assert centroid(light) == pytest.approx((20 + 40, 60), abs=0.05)
    assert light.sum() == pytest.approx(200 * scale**2, rel=0.03)


def test_upright_sprites_are_drawn_like_turned_ones() -> None:
    image = np.random.default_rng(0).random((23, 31, 4), dtype=np.float32)
    pictures = []
    for angle in (0.0, 1e-7):
        canvas = FrameBuffer(64, 64)
        canvas.draw(make_sprite(image, texels=64.0), 0.45, 0.52, scale=1.3, angle=angle, opacity=0.7, light=0.9)
        pictures.append(canvas.pixels.copy())
    np.testing.assert_allclose(pictures[0], pictures[1], atol=1e-3)


def test_the_camera_moves_and_zooms() -> None:
    canvas = FrameBuffer(100, 100)
    canvas.camera = Camera(x=0.4, y=0.5, zoom=2.0)
    assert canvas.to_pixels(0.4, 0.5) == pytest.approx((50, 50))
    assert canvas.to_pixels(0.5, 0.6) == pytest.approx((70, 70))


def test_nothing_is_drawn_outside_the_view() -> None:
    canvas = FrameBuffer(32, 32)
    canvas.draw(make_sprite(WHITE, texels=32.0), 3.0, -2.0)
    canvas.draw(make_sprite(WHITE, texels=32.0), 0.5, 0.5, scale=0.0)
    canvas.draw(make_sprite(WHITE, texels=32.0), 0.5, 0.5, opacity=0.0)
    assert not canvas.pixels.any()


def test_a_shadow_darkens_only_around_its_centre() -> None:
    canvas = FrameBuffer(64, 64)
    canvas.pixels[:] = 0.8
    canvas.shadow(0.5, 0.5, 0.4, 0.2, strength=0.5)
    assert canvas.pixels[32, 32] == pytest.approx(0.4)
    assert canvas.pixels.max() == pytest.approx(0.8)
    assert (canvas.pixels[0] == np.float32(0.8)).all()


def test_a_layer_is_drawn_as_if_its_sprites_had_been() -> None:
    direct, layered, layer = FrameBuffer(48, 48), FrameBuffer(48, 48), FrameBuffer(48, 48, alpha=True)
    ball = make_prop(np.random.default_rng(1), "ball", "red", 48.0)
    for canvas in (direct, layered):
        canvas.draw(make_sprite(np.full((48, 48, 3), 0.5, np.float32), 48.0), 0.5, 0.5)
    direct.draw(ball, 0.3, 0.6)
    layer.draw(ball, 0.3, 0.6)
    layered.draw(layer.sprite(), 0.5, 0.5)
    np.testing.assert_allclose(layered.pixels, direct.pixels, atol=1e-5)


def test_samples_are_texels_and_the_means_between() -> None:
    planes = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
    u, v = np.asarray([0.5, 1.0, 2.5], np.float32), np.asarray([0.5, 0.5, 2.0], np.float32)
    np.testing.assert_allclose(resample(planes, u, v)[0], [0.0, 0.5, 8.0], atol=0.01)


def test_blur_keeps_constants_and_reduces_contrast() -> None:
    image = np.random.default_rng(0).random((20, 24, 3), dtype=np.float32)
    np.testing.assert_allclose(blur(np.full((9, 7), 0.3, np.float32), 2), 0.3, atol=1e-6)
    assert blur(image, 2).std() < 0.5 * image.std()
    dot = np.zeros((11, 11), np.float32)
    dot[5, 5] = 1.0
    np.testing.assert_allclose(blur(dot, 1)[5, 3:8], np.asarray([1, 2, 3, 2, 1]) / 27, atol=1e-6)
    assert blur(image, 0) is image


def test_the_sensor_rounds_clips_and_repeats() -> None:
    sensor = Sensor(np.random.default_rng(0), 24, 32, noise=0.02, vignette=0.3)
    image = np.linspace(-0.5, 1.5, 24 * 32 * 3, dtype=np.float32).reshape(24, 32, 3)
    one, two, other = (sensor.expose(np.random.default_rng(s), image, soften=0.5) for s in (1, 1, 2))
    assert one.dtype == np.uint8
    assert one.shape == (24, 32, 3)
    assert (one == two).all()
    assert (one != other).any()
    assert one.min() == 0


@pytest.mark.parametrize("name", sorted({*textures.TABLES, *textures.WALLPAPERS, *textures.FABRICS}))
@pytest.mark.parametrize("shape", [(40, 64), (33, 7)])
def test_textures_are_images(name: str, shape: tuple[int, int]) -> None:
    image, again = (
        textures.texture(name, np.random.default_rng(3), *shape, textures.COLOURS["teal"]) for _ in range(2)
    )
    assert image.shape == (*shape, 3)
    assert image.min() >= 0.0
    assert image.max() <= 1.05
    assert (image == again).all()


@pytest.mark.parametrize("kind", PROPS)
def test_every_prop_fills_its_body_and_stands_on_its_base(kind: str) -> None:
    sprite = make_prop(np.random.default_rng(0), kind, PROPS[kind].colours[0], 200.0)
    alpha = sprite.levels[0][3]
    inside = np.flatnonzero(alpha.max(axis=1) > 0.5)
    base = (inside[-1] - 1 - sprite.pivot[1]) / 200.0
    assert base == pytest.approx(sprite.height / 2, abs=0.012)
    assert alpha.sum() / 200.0**2 > 0.35 * sprite.width * sprite.height
    assert sprite.levels[0].min() >= 0.0
    assert sprite.levels[0].max() <= 1.0 + 1e-5


def test_every_role_has_props() -> None:
    assert min(len(kinds("roller")), len(kinds("thing")), len(kinds("cover"))) >= 4


def test_the_arm_points_back_to_the_shoulder() -> None:
    hand = make_hand(np.random.default_rng(0), 100.0)
    for shoulder in ((-0.6, 0.5), (1.6, 0.5), (0.5, 1.6)):
        canvas = FrameBuffer(100, 100)
        canvas.draw(hand.back["open"], 0.5, 0.5, angle=reach_angle((0.5, 0.5), shoulder))
        x, y = centroid(canvas.pixels.sum(axis=2))
        towards = (x - 50) * (shoulder[0] - 0.5) + (y - 50) * (shoulder[1] - 0.5)
        assert towards > 10.0


def test_only_a_grip_has_a_thumb_in_front() -> None:
    hand = make_hand(np.random.default_rng(0), 100.0)
    assert hand.front["grip"].levels[0].any()
    assert not hand.front["open"].levels[0].any()


def test_shapes_cover_their_area() -> None:
    shapes = ShapeCanvas(1.0, 1.0, 100.0, margin=0.0)
    areas = {
        "ellipse": (shapes.ellipse(0, 0, 0.4, 0.2), math.pi * 0.4 * 0.2),
        "box": (shapes.box(0.1, 0, 0.5, 0.3), 0.15),
        "capsule": (shapes.capsule((-0.2, 0), (0.2, 0), 0.1), 0.4 * 0.2 + math.pi * 0.01),
        "convex": (shapes.convex((-0.4, -0.4), (0.4, -0.4), (0.4, 0.4)), 0.32),
    }
    for name, (distance, area) in areas.items():
        assert (distance < 0).mean() == pytest.approx(area, abs=0.006), name
