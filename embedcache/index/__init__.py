"""Analyses of a cache without training: neighbours, duplicates, leaks, suspects, what to label next, balance, a map."""

from frostbench.embedcache.index.balance import Balance, balance
from frostbench.embedcache.index.duplicates import Duplicates, duplicates
from frostbench.embedcache.index.groups import NEAR, near_groups
from frostbench.embedcache.index.leaks import Leaks, leaks
from frostbench.embedcache.index.maps import load_or_make_map, make_map, map_path
from frostbench.embedcache.index.neighbours import Neighbours, image_neighbours, nearest_among, neighbours
from frostbench.embedcache.index.next_labels import STRATEGIES, next_labels
from frostbench.embedcache.index.suspects import SuspectRanker, Suspects, suspects

__all__ = [
    "NEAR",
    "STRATEGIES",
    "Balance",
    "Duplicates",
    "Leaks",
    "Neighbours",
    "SuspectRanker",
    "Suspects",
    "balance",
    "duplicates",
    "image_neighbours",
    "leaks",
    "load_or_make_map",
    "make_map",
    "map_path",
    "near_groups",
    "nearest_among",
    "neighbours",
    "next_labels",
    "suspects",
]
