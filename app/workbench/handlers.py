"""What answers the requests of all tabs. Importing it imports torch, so the server does so after it has started."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from frostbench.app.uploads import Uploads
from frostbench.app.workbench import uploading
from frostbench.app.workbench.background import Background
from frostbench.app.workbench.bar import job_summary
from frostbench.app.workbench.compare import answers as compare
from frostbench.app.workbench.data import answers as data
from frostbench.app.workbench.export import answers as export
from frostbench.app.workbench.images import answers as images
from frostbench.app.workbench.photos import answers as photos
from frostbench.app.workbench.photos.keeping import PhotoSets
from frostbench.app.workbench.photos.receiving import take_photo
from frostbench.app.workbench.pictures import send_picture, send_pictures
from frostbench.app.workbench.predict import answers as predict
from frostbench.app.workbench.predict.process import PredictionProcess
from frostbench.app.workbench.predict.sets import PredictionSets
from frostbench.app.workbench.runs import answers as runs
from frostbench.app.workbench.train.answers import train_answers
from frostbench.app.workspace import Workspace


@dataclass(frozen=True)
class Handlers:
    """Functions that answer requests.

    Attributes:
        answers: by name, the function from a request's JSON value to that of the answer, or to bytes.
        picture: sends a picture of an image of a cache.
        predicted_picture: sends a picture of an image that is predicted.
        file: sends a file that was made for download.
        upload: stores uploaded images.
        keep_photo: keeps uploaded photos for good.
        close: ends what runs in the background.
    """

    answers: dict[str, Callable[[Any], Any]]
    picture: Callable[[Request], Response]
    predicted_picture: Callable[[Request], Response]
    file: Callable[[Request], Response]
    upload: Callable[[Request], Awaitable[Response]]
    keep_photo: Callable[[Request], Awaitable[Response]]
    close: Callable[[], None]


def handlers_of(workspace: Workspace, scratch: Path) -> Handlers:
    """Return the handlers of a workspace; `scratch` is a folder for uploads, and for files while they are sent."""
    sets, uploads = PredictionSets(workspace.device, workspace.plugins), Uploads(scratch / "uploads")
    kept, looking = PhotoSets(workspace.root), PredictionProcess(photos.ENDED)
    files, background = scratch / "files", Background()
    answers = {
        "jobs": lambda _: job_summary(workspace),
        "pictures": lambda request: send_pictures(request, workspace),
        **compare.answers(workspace),
        **data.answers(workspace, background),
        **export.answers(workspace, sets.process, files),
        **images.answers(workspace),
        **photos.answers(workspace, kept, looking, scratch / "measured"),
        **predict.answers(workspace, sets, uploads),
        **runs.answers(workspace, background),
        **train_answers(workspace),
    }
    return Handlers(
        answers,
        lambda request: send_picture(request, workspace),
        lambda request: predict.send_predicted_picture(request, sets),
        lambda request: export.send_file(request, files),
        lambda request: uploading.take_images(request, uploads, scratch),
        lambda request: take_photo(request, kept, scratch),
        lambda: _end(sets.process, looking),
    )


def _end(*processes: PredictionProcess) -> None:
    for process in processes:
        process.end()
