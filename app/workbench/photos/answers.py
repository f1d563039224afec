"""What adding photos asks for."""

from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any

from frostbench.app.workbench.background import Background
from frostbench.app.workbench.photos.embedding import Embedding, check_backbone, folder_of
from frostbench.app.workbench.photos.keeping import PhotoSets
from frostbench.app.workbench.photos.names import free_name
from frostbench.app.workbench.photos.records import EmbeddingRequest
from frostbench.app.workbench.photos.sources import MANIFESTS
from frostbench.app.workbench.predict.process import PredictionProcess
from frostbench.app.workbench.requests import RequestError
from frostbench.app.workspace import Workspace
from frostbench.embedcache.items import IMAGE_SUFFIXES

COMPUTING = {"state": "computing"}
ENDED = "The process that looks at photos has ended, perhaps because memory was short. Try again with fewer of them."
MOST_LETTERS = 1000
MOST_FOLDERS = 200


def answers(
    workspace: Workspace, sets: PhotoSets, process: PredictionProcess, scratch: Path
) -> dict[str, Callable[[Any], Any]]:
    """Return the functions that answer the requests, by name."""
    asking = Asking(workspace, sets, process, scratch)
    return {
        "photos": lambda _: asking.overview(),
        "photos-backbones": lambda _: asking.backbones(),
        "photos-begin": lambda request: {"set": sets.begin(_text(request, "name"))},
        "photos-look": asking.look,
        "photos-measure": asking.measure,
        "photos-name": asking.name,
        "photos-embed": asking.embed,
        "photos-state": lambda _: asking.state(),
        "photos-stop": lambda _: asking.act(asking.embedding.stop),
        "photos-resume": lambda _: asking.act(asking.embedding.resume),
        "photos-forget": lambda _: asking.act(asking.embedding.forget),
    }


class Asking:
    """Answers of a page; what takes long is computed in another process while the page asks again."""

    def __init__(self, workspace: Workspace, sets: PhotoSets, process: PredictionProcess, scratch: Path) -> None:
        self.embedding = Embedding(workspace)
        self._workspace = workspace
        self._sets = sets
        self._process = process
        self._scratch = scratch
        self._background = Background()

    def overview(self) -> dict[str, Any]:
        """Return the folders of the page and where uploads go, what can be uploaded, and the embedding if any."""
        root = self._workspace.root.resolve()
        return {
            "root": str(root),
            "home": self._sets.home,
            "folders": _folders(root, self._workspace),
            "suffixes": sorted(IMAGE_SUFFIXES),
            "manifests": list(MANIFESTS),
            "most_files": self._sets.most_files,
            "caches": len(self._workspace.cache_names()),
            "embedding": self.state()["embedding"],
        }

    def backbones(self) -> dict[str, Any]:
        """Return the backbones of the catalogue; see `looking.backbones`."""
        found = self._later("backbones", "photos.looking.backbones")
        return COMPUTING if found is None else {"state": "ready", "backbones": found}

    def look(self, request: Any) -> dict[str, Any]:
        """Return what a folder holds and a name for its cache; the ticket of the request makes it look again.

        Raises:
            RequestError: the page may not read the folder, or its images.
            ValueError: the folder cannot be listed.
        """
        found = self._look(request)
        if found is None:
            return COMPUTING
        root = self._workspace.root
        wanted = (
            Path(found["source"]).parent if Path(found["source"]).suffix in (".csv", ".parquet") else found["source"]
        )
        told = {name: value for name, value in found.items() if name != "description"}
        return {"state": "ready", "name": free_name(Path(wanted).name, root)} | told

    def measure(self, request: Any) -> dict[str, Any]:
        """Return the time that a backbone is estimated to take, or why it cannot be used; see `looking.measure`.

        Raises:
            RequestError: the backbone may not be loaded.
        """
        backbone, where = _text(request, "backbone"), self._where(request)
        check_backbone(backbone)
        more = (backbone, self._workspace.device, self._scratch)
        found = self._later(
            ("measure", *where, _text(request, "ticket"), backbone), "photos.looking.measure", *where, *more
        )
        return COMPUTING if found is None else {"state": "ready"} | found

    def name(self, request: Any) -> dict[str, Any]:
        """Return the `problem` of a cache's name, and whether it `resumes` an unfinished cache of these photos."""
        found = self._look(request)
        if found is None:
            return COMPUTING
        problem, resumes = self.embedding.problem_of(_text(request, "cache"), found["description"])
        return {"state": "ready", "problem": problem, "resumes": resumes}

    def embed(self, request: Any) -> dict[str, Any]:
        """Start the embedding and return its state, or that the photos are still looked at: then nothing was started.

        Raises:
            RequestError: another one is running, or the name is taken.
        """
        found, cache, backbone = self._look(request), _text(request, "cache"), _text(request, "backbone")
        if found is None:
            return COMPUTING
        check_backbone(backbone)
        problem, _ = self.embedding.problem_of(cache, found["description"])
        if problem:
            raise RequestError(problem)
        _, folder, regex = self._where(request)
        device = self._workspace.device
        self.embedding.start(
            EmbeddingRequest(folder=folder, cache=cache, backbone=backbone, group_regex=regex, device=device)
        )
        # It holds hundreds of megabytes, which the embedding may need.
        self._process.end()
        return self.state()

    def state(self) -> dict[str, Any]:
        """Return the embedding, None if there is none; a finished one is among the caches of the page from then on."""
        found = self.embedding.state()
        if found is not None and found["state"] == "done" and found["name"] not in self._workspace.cache_names():
            self._workspace.search_again()
        return {"embedding": found}

    def act(self, action: Callable[[], None]) -> dict[str, Any]:
        """Do something with the embedding, and return its state."""
        action()
        return self.state()

    def _where(self, request: Any) -> tuple[Path, str, str]:
        """Return the root, the folder below it and the regular expression of groups that a request names."""
        folder, root = folder_of(_text(request, "folder"), self._workspace), self._workspace.root.resolve()
        return root, folder, _text(request, "regex")

    def _look(self, request: Any) -> dict[str, Any] | None:
        where = self._where(request)
        found: dict[str, Any] | None = self._later(
            ("look", *where, _text(request, "ticket")), "photos.looking.look", *where
        )
        return found

    def _later(self, key: Hashable, name: str, *arguments: object) -> Any | None:
        return self._background.get(key, lambda: self._process.call(name, *arguments))


def _folders(root: Path, workspace: Workspace) -> list[str]:
    """Return the folders directly below the root that may hold photos, to choose from."""
    caches = {Path(name).resolve() for name in workspace.cache_names()} | {workspace.store.resolve()}
    try:
        found = sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError:
        return []
    return [path.name for path in found if path.resolve() not in caches and path.name.isprintable()][:MOST_FOLDERS]


def _text(request: Any, name: str) -> str:
    value = request.get(name, "") if isinstance(request, Mapping) else None
    if not isinstance(value, str) or len(value) > MOST_LETTERS:
        raise RequestError(f"A request states {name} as a text of at most {MOST_LETTERS} letters, as the page does.")
    return value
