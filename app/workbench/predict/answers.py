"""What the tab Predict asks for."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from frostbench.app.uploads import Uploads
from frostbench.app.workbench.predict.choice import Choice
from frostbench.app.workbench.predict.sets import PredictionSets
from frostbench.app.workbench.requests import RequestError, store_of
from frostbench.app.workbench.runs.answers import run_list
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.runs.store import run_folder
from frostbench.embedcache.decode import DecodeError, read_image_file
from frostbench.embedcache.items import escape_name
from frostbench.embedcache.outputs.spreadsheets import csv_text
from frostbench.embedcache.sources.walking import find_images
from frostbench.embedcache.thumbnails import SIZES, make_thumbnail

MOST_HEADS = 6
MOST_IMAGES = 20_000
TEMPERATURES = (0.25, 4.0)


def answers(workspace: Workspace, sets: PredictionSets, uploads: Uploads) -> dict[str, Callable[[Any], Any]]:
    """Return the functions that answer the tab's requests, by name."""
    return {
        "heads": lambda _: heads(workspace),
        "predict": lambda request: predict(request, workspace, sets, uploads),
        "predicted": lambda request: predicted(request, sets),
        "predicted-image": lambda request: predicted_image(request, sets),
        "predictions-csv": lambda request: predictions_csv(request, sets),
        "stop-predicting": lambda request: sets.stop(_asked(request).get("set")),
    }


def heads(workspace: Workspace) -> dict[str, Any]:
    """Return the settings of all stores that keep a head, each with the run that is best on validation images."""
    listed = run_list(workspace)
    kept = [setting | {"key": key} for setting in listed["settings"] if (key := _best_kept(setting))]
    root = str(workspace.root.resolve())
    return {"settings": kept, "problems": listed["problems"], "stores": listed["stores"], "root": root}


def _best_kept(setting: Mapping[str, Any]) -> str:
    """Return the run that is best on validation images among those whose head is in the store, or ""."""
    scores = setting["values"].get("macro_f1_fg") or [None] * len(setting["keys"])
    order = sorted(zip(scores, setting["keys"], strict=True), key=lambda pair: -1.0 if pair[0] is None else pair[0])
    folder = Path(setting["store"])
    return next((key for _, key in reversed(order) if (run_folder(folder, key) / "head").is_dir()), "")


def predict(request: Any, workspace: Workspace, sets: PredictionSets, uploads: Uploads) -> dict[str, Any]:
    """Start predicting; return the name of the set and the number of images.

    Args:
        request: `heads` (each with store, keys, name and here), and `uploads` (ids) or `folder` (a path).
        workspace: workspace of the page.
        sets: sets of the page.
        uploads: images that were uploaded.

    Raises:
        RequestError: the request has another form, or names something that the page does not show.
        SettingsError: the folder is not below that of the page.
        UploadError: an image is no longer on the server.
    """
    asked = _asked(request)
    chosen = asked.get("heads")
    if not isinstance(chosen, list) or not 1 <= len(chosen) <= MOST_HEADS:
        raise RequestError(f"1 to {MOST_HEADS} heads can predict together. Choose some of them.")
    choices = [_choice(one, workspace) for one in chosen]
    files, notes = _files(asked, workspace, uploads)
    if not 1 <= len(files) <= MOST_IMAGES:
        raise RequestError(
            f"1 to {MOST_IMAGES:,} images can be predicted here, got {len(files):,}. "
            + ("Use `frostbench predict` on the command line." if files else "Choose some images.")
        )
    titles = [str(one.get("name", "")) for one in chosen]
    return {"set": sets.start(choices, titles, files, notes), "images": len(files)}


def _choice(one: Any, workspace: Workspace) -> Choice:
    if not isinstance(one, Mapping):
        raise RequestError("A head needs a store and a run key, as the page sends them.")
    store, key, here = store_of(one, workspace), str(one.get("key")), one.get("here")
    if not (run_folder(store, key) / "head").is_dir():
        raise RequestError(f"The head of run {key} is not in the store. Train it again.")
    return Choice(store.resolve(), key, workspace.cache(here).resolve() if here else None)


def _files(
    asked: Mapping[str, Any], workspace: Workspace, uploads: Uploads
) -> tuple[list[tuple[Path, str]], list[str]]:
    """Return path and name of each image, and sentences about files that were skipped."""
    if "folder" in asked:
        folder = workspace.folder(str(asked["folder"]))
        found, left_out = find_images(folder)
        return [(path.resolve(), str(path.relative_to(folder))) for path in found], left_out
    ids = asked.get("uploads")
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise RequestError("Images need uploads or a folder, as the page sends them.")
    kept = [uploads.get(one) for one in ids]
    return [(one.path.resolve(), one.name) for one in kept], []


def predicted(request: Any, sets: PredictionSets) -> dict[str, Any]:
    """Return how far a set is, and what its heads predict so far; see `engine.results`.

    Raises:
        RequestError: the set is not kept, or the request has another form.
        PredictionError: the predictions are not kept.
    """
    asked = _asked(request)
    found = sets.get(asked.get("set"))
    told: dict[str, Any] = {"state": found.state, "done": found.done, "total": len(found.files), "error": found.error}
    told |= {"names": [escape_name(name) for _, name in found.files], "notes": list(found.notes)}
    told["facts"] = [{"name": title} | facts for title, facts in zip(found.titles, found.facts, strict=False)]
    if not found.done:
        return told | {"errors": [], "heads": []}
    results: dict[str, Any] = sets.process.call("predict.engine.results", found.name, *_adjustment(asked))
    return told | results


def predicted_image(request: Any, sets: PredictionSets) -> list[dict[str, Any]]:
    """Return the most probable classes of an image and its nearest training images, for each head.

    Raises:
        RequestError: the set is not kept, or the request has another form.
        PredictionError: the image has no prediction.
    """
    asked = _asked(request)
    found = sets.get(asked.get("set"))
    image, adjustment = _number(asked.get("image")), _adjustment(asked)
    told: list[dict[str, Any]] = sets.process.call("predict.engine.inspect", found.name, image, *adjustment)
    return told


def predictions_csv(request: Any, sets: PredictionSets) -> bytes:
    """Return the predictions of all heads as CSV: image and error, and per head class, probability and each p.

    Texts that a spreadsheet would evaluate get an apostrophe.

    Raises:
        RequestError: the set is not kept, or the request has another form.
        PredictionError: the predictions are not kept.
    """
    asked = _asked(request)
    found, adjustment = sets.get(asked.get("set")), _adjustment(asked)
    results = sets.process.call("predict.engine.results", found.name, *adjustment)
    tables = sets.process.call("predict.engine.probabilities", found.name, *adjustment)
    frame = pd.DataFrame({"image": [escape_name(name) for _, name in found.files[: len(results["errors"])]]})
    frame["error"] = results["errors"]
    for number, (facts, head, p) in enumerate(zip(found.facts, results["heads"], tables, strict=True)):
        start = f"{number + 1}:" if len(tables) > 1 else ""
        names = facts["classes"]
        columns = {
            "class": [None if c < 0 else names[c] for c in head["classes"]],
            "probability": head["probabilities"],
            "nearest_cosine": head["cosines"],
            "unlike_training": head["unlike"],
        }
        columns |= {f"p:{name}": p[:, place].tolist() for place, name in enumerate(names)}
        frame = pd.concat([frame, pd.DataFrame({start + key: column for key, column in columns.items()})], axis=1)
    return csv_text(frame).encode()


def send_predicted_picture(request: Request, sets: PredictionSets) -> Response:
    """Send a picture of an image of a set, decoded as for a head."""
    asked = request.query_params
    try:
        files = sets.get(asked.get("set")).files
        image, size = _number(asked.get("image")), _number(asked.get("size"))
        if image >= len(files) or size not in SIZES:
            raise RequestError("There is no such picture. Reload the page.")
        content = make_thumbnail(read_image_file(files[image][0]), size)
    except (DecodeError, ValueError, OSError) as error:
        return PlainTextResponse(str(error), 404)
    return Response(content, media_type="image/webp", headers={"cache-control": "private, max-age=600"})


def _asked(request: Any) -> Mapping[str, Any]:
    if not isinstance(request, Mapping):
        raise RequestError("A request is an object, as the page sends it.")
    return request


def _number(value: Any) -> int:
    text = str(value)
    if not text.isdecimal():
        raise RequestError(f"A number is needed, got {text!r}. Reload the page.")
    return int(text)


def _adjustment(asked: Mapping[str, Any]) -> tuple[float, float]:
    """Return the extra temperature and the share of the uniform prior."""
    temperature, prior = asked.get("temperature", 1), asked.get("prior", 0)
    if not all(isinstance(one, int | float) for one in (temperature, prior)) or not (
        TEMPERATURES[0] <= temperature <= TEMPERATURES[1] and 0 <= prior <= 1
    ):
        raise RequestError(
            f"A temperature must be from {TEMPERATURES[0]} to {TEMPERATURES[1]} and a prior from 0 to 1, got "
            f"{temperature!r} and {prior!r}."
        )
    return float(temperature), float(prior)
