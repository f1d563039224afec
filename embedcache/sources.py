"""Sources of images: a folder of class folders, or a CSV or Parquet manifest."""

from pathlib import Path

from embedcache.folders import list_folder as list_folder
from embedcache.items import Item as Item
from embedcache.items import Listing as Listing
from embedcache.manifests import list_manifest as list_manifest


def list_source(source: Path, *, root: Path | None = None, group_regex: str | None = None) -> Listing:
    """List a folder of class folders, or the images of a manifest file.

    Args:
        source: the folder, or the .csv or .parquet file.
        root: where a manifest's relative paths start; by default at the manifest's folder.
        group_regex: takes each image's group from its id.

    Raises:
        ValueError: the source cannot be listed; see `list_folder` and `list_manifest`.
    """
    if not source.exists():
        raise ValueError(
            f"a source is a folder of class folders or a .csv or .parquet manifest, however: {source} does not exist. "
            "Is the path right?"
        )
    if not source.is_dir():
        return list_manifest(source, root=root, group_regex=group_regex)
    if root is not None:
        raise ValueError(f"a root belongs to a manifest, however: {source} is a folder. Leave the root out.")
    return list_folder(source, group_regex=group_regex)
