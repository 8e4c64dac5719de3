import io

import numpy as np
import pytest
from PIL import Image

from compress.tasks.image_classification.decode import decode, is_image_name, probe, to_pixels
from tests.tasks.images import encoded, picture


def test_colour_and_grey_images_keep_their_channels():
    assert np.array_equal(decode(encoded(picture(0))), picture(0))
    assert np.array_equal(decode(encoded(picture(0, channels=1))), picture(0, channels=1)[:, :, None])


def test_palettes_and_transparency_become_rgb():
    for mode in ("P", "RGBA"):
        stream = io.BytesIO()
        Image.fromarray(picture(0)).convert(mode).save(stream, "PNG")
        assert decode(stream.getvalue()).shape == (8, 8, 3)


def test_the_orientation_that_a_camera_noted_is_applied():
    image = Image.fromarray(picture(0, 16, 24))
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    stream = io.BytesIO()
    image.save(stream, "PNG", exif=exif)
    assert probe(stream.getvalue()) == (24, 16)
    assert np.array_equal(decode(stream.getvalue()), np.rot90(picture(0, 16, 24), -1))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP"])
def test_a_truncated_image_is_found_without_decoding_it_in_full_size(kind):
    data = encoded(picture(0, 64, 48), kind)
    assert probe(data) == (64, 48)
    for where in (len(data) // 2, len(data) // 4):
        with pytest.raises(ValueError, match=r"\w"):
            probe(data[:where])


@pytest.mark.parametrize("data", [b"", b"text", b"\x00" * 100])
def test_what_is_no_image_says_so(data):
    with pytest.raises(ValueError, match="not an image"):
        probe(data)


def test_other_arrays_are_refused_with_what_was_expected():
    with pytest.raises(ValueError, match="expected pixels as uint8, got float32"):
        to_pixels(np.zeros((4, 4, 3), np.float32))
    with pytest.raises(ValueError, match=r"got \(4, 4, 2\)"):
        to_pixels(np.zeros((4, 4, 2), np.uint8))


def test_names_of_images():
    assert is_image_name("a/b.JPG")
    assert not is_image_name("a/b.txt")
    assert not is_image_name("a/._b.jpg")
    assert not is_image_name("jpg")
