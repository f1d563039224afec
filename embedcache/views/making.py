"""Creation of planned views while images are decoded."""

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from frostbench.embedcache.decode import DecodeError, ElsewhereError
from frostbench.embedcache.items import Item
from frostbench.embedcache.sources.reading import read_item
from frostbench.embedcache.views.planning import PlannedView
from frostbench.embedcache.views.policy import Image, Policy, View
from frostbench.embedcache.views.saliency import Saliency
from frostbench.embedcache.views.transplant import Transplant


class Maker:
    """Maker of a policy's planned views, called by `BackboneGroup` on each image.

    Attributes:
        text: description of the views in a recipe.
        shares: share of the image's own label, by id of the views made so far.
    """

    def __init__(
        self,
        policy: Policy,
        seed: int,
        planned: Sequence[PlannedView],
        items: Sequence[Item],
        content: Sequence[str],
        decode: Callable[[bytes], Image],
        using: threading.Lock,
        saliency: Saliency | None = None,
    ) -> None:
        self.text = f"{policy.text} seed {seed}"
        self.shares: dict[str, float] = {}
        self._policy, self._items, self._content = policy, items, content
        self._planned: Mapping[str, PlannedView] = {view.id: view for view in planned}
        self._decode = decode
        self._saliency, self._using = saliency, using

    def check(self, name: str, sha256: bytes) -> None:
        """Refuse a changed file, whose view would show a different image.

        Raises:
            ElsewhereError: the SHA-256 of the file differs from that of its row in the cache.
        """
        self._check(self._planned[name].row, sha256, "")

    def _check(self, row: int, sha256: bytes, whose: str) -> None:
        if sha256.hex() != self._content[row]:
            raise ElsewhereError(
                f"{whose}has changed since the cache was made; put the old file back, or embed again with --update and "
                "make this view set again"
            )

    def _read(self, row: int, whose: str = "") -> Image:
        """Return the image of a row, decoded from its unchanged file."""
        data = read_item(self._items[row])
        self._check(row, hashlib.sha256(data).digest(), whose)
        return self._decode(data)

    def __call__(self, name: str, image: Image) -> Image:
        """Make the view with this id from its decoded image uint8 [H, W, 3].

        Raises:
            ElsewhereError: the partner's file cannot be decoded, or has changed.
        """
        planned = self._planned[name]
        view = self._make(planned, image)
        self.shares[name] = view.share
        return np.ascontiguousarray(view.image)

    def _make(self, planned: PlannedView, image: Image) -> View:
        if planned.partner is None:
            single: View = self._policy(image, planned.seed, planned.number)  # type: ignore[operator]
            return single
        partner = self._partner(planned.partner)
        if isinstance(self._policy, Transplant):
            return self._policy(image, partner, self._salience(planned, image))
        mixed: View = self._policy(image, partner, planned.seed, planned.number)  # type: ignore[operator]
        return mixed

    def _partner(self, row: int) -> Image:
        name = self._items[row].id
        try:
            return self._read(row, f"the partner {name}: ")
        except ElsewhereError:
            raise
        except DecodeError as error:
            raise ElsewhereError(f"the partner {name}: {error}") from error

    def _salience(self, planned: PlannedView, image: Image) -> np.ndarray:
        """Return the saliency of the image's patches, holding the lock of the backbone."""
        if self._saliency is None:
            raise ValueError("transplant requires a backbone for its saliency, got none. Pass one.")
        with self._using:
            return self._saliency(self._items[planned.row].id, image)

    def remake(self, name: str) -> float:
        """Return the share of a view made by a previous run; raises the errors of `check` and of decoding."""
        self(name, self._read(self._planned[name].row))
        return self.shares[name]
