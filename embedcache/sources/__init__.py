"""Listing images of folders, manifests, Parquet files and datasets."""
