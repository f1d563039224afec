"""Listing a source of any kind: folders, manifests, Parquet files with images, Hugging Face datasets, image lists."""

from pathlib import Path

from frostbench.embedcache.items import Item as Item
from frostbench.embedcache.items import Listing as Listing
from frostbench.embedcache.sources.bytes_in_parquet import holds_encoded_images, list_parquet, parquet_files
from frostbench.embedcache.sources.folders import list_folder as list_folder
from frostbench.embedcache.sources.hf_datasets import is_saved_dataset, list_dataset
from frostbench.embedcache.sources.manifests import list_manifest as list_manifest
from frostbench.embedcache.sources.ufg import is_ufg, list_ufg


def list_source(
    source: Path,
    *,
    root: Path | None = None,
    group_regex: str | None = None,
    time_regex: str | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
) -> Listing:
    """List the images of any source; docs/sources.md describes each kind.

    Args:
        source: a .csv or .parquet manifest; a .parquet file with images, or a folder of them; a folder saved by Hugging
            Face datasets; a folder of the ultra-fine-grained benchmark; or a folder of class folders.
        root: folder at which a manifest's relative paths start; default: the manifest's folder.
        group_regex: regex that extracts each image's group from its id.
        time_regex: regex that extracts each image's time from its id.
        image_column: image column, if the source has columns and several qualify.
        label_column: label column, likewise.

    Raises:
        ValueError: the source cannot be listed, or an option does not apply to its kind.
        ModuleNotFoundError: the source needs a package that is not installed.
    """
    if not source.exists():
        raise ValueError(
            f"A source must be a folder, or a .csv or .parquet file, but {source} does not exist. Check the path."
        )
    kind = kind_of(source)
    given = {"root": root, "image_column": image_column, "label_column": label_column}
    _check_options(source, kind, {name for name, value in given.items() if value is not None})
    match kind:
        case "manifest":
            return list_manifest(source, root=root, group_regex=group_regex, time_regex=time_regex)
        case "Parquet with images" | "Hugging Face dataset":
            lister = list_parquet if kind == "Parquet with images" else list_dataset
            return lister(
                source,
                image_column=image_column,
                label_column=label_column,
                group_regex=group_regex,
                time_regex=time_regex,
            )
        case "ultra-fine-grained set":
            return list_ufg(source, group_regex=group_regex, time_regex=time_regex)
        case _:
            return list_folder(source, group_regex=group_regex, time_regex=time_regex)


def kind_of(source: Path) -> str:
    """Return the kind of a source, in words."""
    if not source.is_dir():
        is_images = source.suffix.lower() == ".parquet" and holds_encoded_images(source)
        return "Parquet with images" if is_images else "manifest"
    if is_saved_dataset(source):
        return "Hugging Face dataset"
    if any(map(holds_encoded_images, parquet_files(source))):
        return "Parquet with images"
    return "ultra-fine-grained set" if is_ufg(source) else "folder"


def _check_options(source: Path, kind: str, given: set[str]) -> None:
    columned = {"image_column", "label_column"} if kind in ("Parquet with images", "Hugging Face dataset") else set()
    unfit = sorted(given - ({"root"} if kind == "manifest" else columned))
    if "root" in unfit:
        raise ValueError(f"`root` applies only to manifests, but {source} is of the kind {kind!r}. Leave it out.")
    if unfit:
        names, leave = ("name columns", "them") if unfit[1:] else ("names a column", "it")
        raise ValueError(
            f"{' and '.join(unfit)} {names} of Parquet files with images and of Hugging Face datasets, but {source} is "
            f"of the kind {kind!r}. Leave {leave} out; the columns of a manifest must be called path and label."
        )
