"""Files that belong to a trial (its report), kept by Optuna's artifact store so that the dashboard shows them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune.settings import StudySettings

if TYPE_CHECKING:
    from optuna.artifacts import FileSystemArtifactStore

FOLDER = "artifacts"


def store_of(folder: Path, settings: StudySettings) -> FileSystemArtifactStore:
    """The artifact store of a study, a folder below the workers' folder. Makes the folder."""
    from optuna.artifacts import FileSystemArtifactStore

    path = folder / settings.name / FOLDER
    path.mkdir(parents=True, exist_ok=True)
    return FileSystemArtifactStore(str(path))


def attach(store: FileSystemArtifactStore, storage: Any, trial_id: int, path: Path) -> str:
    """Copies a file into the store and enters it with the trial; the artifact's id."""
    from optuna.artifacts import upload_artifact

    return str(
        upload_artifact(
            artifact_store=store, file_path=str(path), study_or_trial=storage.get_trial(trial_id), storage=storage
        )
    )
