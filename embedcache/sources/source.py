"""Sources of images: folders, manifests, Parquet files with images in them, datasets of Hugging Face, and lists."""

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
    """List images, whatever they lie in; docs/sources.md shows each kind.

    Args:
        source: a .csv or .parquet manifest; a .parquet file that holds images, or a folder of such; a folder that
            Hugging Face datasets saved; a folder of the ultra-fine-grained benchmark; or a folder of class folders.
        root: where a manifest's relative paths start; by default at the manifest's folder.
        group_regex: takes each image's group from its id.
        time_regex: takes each image's time from its id.
        image_column: the column of images, where the source has columns and several can be meant.
        label_column: the column of labels, likewise.

    Raises:
        ValueError: the source cannot be listed, or an option does not belong to its kind.
        ModuleNotFoundError: the source needs a package that is not installed.
    """
    if not source.exists():
        raise ValueError(
            f"a source is a folder of class folders or a .csv or .parquet manifest, however: {source} does not exist. "
            "Is the path right?"
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
    """What kind of source a file or folder is, in words."""
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
        raise ValueError(f"a root belongs to a manifest, however: {source} is a {kind}. Leave the root out.")
    if unfit:
        names, leave = ("name columns", "them") if unfit[1:] else ("names a column", "it")
        raise ValueError(
            f"{' and '.join(unfit)} {names} of Parquet files with images and of Hugging Face datasets, however: "
            f"{source} is a {kind}. Leave {leave} out; a manifest calls its columns path and label."
        )
