"""Making planned views while images are decoded."""

import threading
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from embedcache.decode import DecodeError, ElsewhereError
from embedcache.items import Item
from embedcache.sources.reading import read_item
from embedcache.views.planning import PlannedView
from embedcache.views.policy import Image, Policy, View
from embedcache.views.saliency import Saliency
from embedcache.views.transplant import Transplant


class Maker:
    """Makes the planned views of a policy; `embedcache.extraction.together.Together` calls it on each decoded image.

    Attributes:
        text: how a recipe states the views.
        shares: of the label that is the image's own, by id of the views that were made.
    """

    def __init__(
        self,
        policy: Policy,
        seed: int,
        planned: Sequence[PlannedView],
        items: Sequence[Item],
        decode: Callable[[bytes], Image],
        using: threading.Lock,
        saliency: Saliency | None = None,
    ) -> None:
        self.text = f"{policy.text} seed {seed}"
        self.shares: dict[str, float] = {}
        self._policy, self._items = policy, items
        self._planned: Mapping[str, PlannedView] = {view.id: view for view in planned}
        self._decode = decode
        self._saliency, self._using = saliency, using

    def __call__(self, name: str, image: Image) -> Image:
        """The view of that id, of its decoded image uint8 [H, W, 3].

        Raises:
            DecodeError: the partner's file cannot be decoded.
        """
        planned = self._planned[name]
        view = self._made(planned, image)
        self.shares[name] = view.share
        return np.ascontiguousarray(view.image)

    def _made(self, planned: PlannedView, image: Image) -> View:
        if planned.partner is None:
            found: View = self._policy(image, planned.seed, planned.number)  # type: ignore[operator]
            return found
        partner = self._partner(self._items[planned.partner])
        if isinstance(self._policy, Transplant):
            return self._policy(image, partner, self._salient(planned, image))
        mixed: View = self._policy(image, partner, planned.seed, planned.number)  # type: ignore[operator]
        return mixed

    def _partner(self, item: Item) -> Image:
        try:
            return self._decode(read_item(item))
        except DecodeError as error:
            raise ElsewhereError(f"the partner {item.id} {error}") from error

    def _salient(self, planned: PlannedView, image: Image) -> np.ndarray:
        """How salient the patches of an image are; nobody else uses the backbone meanwhile."""
        if self._saliency is None:
            raise ValueError("patches are transplanted by what a backbone looks at, however: none came. Give one.")
        with self._using:
            return self._saliency(self._items[planned.row].id, image)

    def remake(self, name: str) -> float:
        """The share of a view that was made before, from its files."""
        item = self._items[self._planned[name].row]
        self(name, self._decode(read_item(item)))
        return self.shares[name]
