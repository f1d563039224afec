"""Where images come from: folders, manifests, Parquet files, datasets; each becomes a listing."""
